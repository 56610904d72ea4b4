#!/usr/bin/env bash
# Run every fuzz target of both modules for FUZZTIME, one after the other.
set -euo pipefail

root=$PWD
count=0
for module in . devcluster; do
  cd "$root/$module"
  while IFS=: read -r file target; do
    count=$((count + 1))
    echo "== $module/${file#./}: $target for ${FUZZTIME:-10s}"
    go test -vet=off -run '^$' -fuzz "^${target}\$" -fuzztime "${FUZZTIME:-10s}" "./$(dirname "${file#./}")"
  done < <(find . -name '*_test.go' -not -path './devcluster/*' -not -path './bin/*' \
    -exec grep -HoE '^func Fuzz[A-Za-z0-9_]*' {} + | sed 's/:func /:/' | sort)
done
echo "== $count fuzz targets found nothing"
