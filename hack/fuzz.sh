#!/usr/bin/env bash
# Run every fuzz target of both modules for FUZZTIME, one after the other. Arguments are folders of the main module to limit it to.
set -euo pipefail

root=$PWD
count=0
fuzz() {
  while IFS=: read -r file target; do
    count=$((count + 1))
    echo "== ${PWD#"$root"}/${file#./}: $target for ${FUZZTIME:-10s}"
    go test -vet=off -run '^$' -fuzz "^${target}\$" -fuzztime "${FUZZTIME:-10s}" "./$(dirname "${file#./}")"
  done < <(find "$@" -name '*_test.go' -not -path './devcluster/*' -not -path './bin/*' \
    -exec grep -HoE '^func Fuzz[A-Za-z0-9_]*' {} + | sed 's/:func /:/' | sort)
}
if (($#)); then
  fuzz "$@"
else
  for module in . devcluster; do
    cd "$root/$module"
    fuzz .
  done
fi
((count)) || { echo "there is no fuzz target in $*" >&2; exit 1; }
echo "== $count fuzz targets found nothing"
