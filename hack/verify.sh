#!/usr/bin/env bash
# Generate everything again and fail if a file changed, or if a go.mod is not tidy. It compares with a copy and not with
# git, so it tells the truth on an uncommitted tree too; what it generated stays. TIDY=all fetches what tidying the largest
# modules needs.
set -euo pipefail
. hack/modules.sh

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
failed=0

# Everything that make generate manifests writes.
generated() {
  find api -name 'zz_generated.*.go'
  find config -name '*.yaml' -o -name '*.json'
  find devcluster/internal/catalog/crds -name '*.yaml'
  find charts -type f
  find docs/reference -type f
}

before=$copy/before after=$copy/after
mkdir -p "$before" "$after"
generated | xargs cp --parents -t "$before"
make manifests
generated | xargs cp --parents -t "$after"
if diff -ru "$before" "$after"; then
  echo "verify: generated files are up to date"
else
  echo "verify: generated files were out of date and have been written again: add them to your commit" >&2
  failed=1
fi

# tidy module [file]: say whether its go.mod, or a file in its place, is what go mod tidy makes of it, and the sums beside it.
tidy() {
  local why file=${2-go.mod}
  if why=$(go -C "$1" mod tidy -diff -modfile="$file" 2>&1); then
    echo "verify: $1/$file is tidy"
  elif [[ $why == *"module lookup disabled"* ]]; then
    echo "verify: $1/$file: NOT RUN, since go mod tidy needs modules that are not in the module cache: TIDY=all fetches them" >&2
  else
    printf 'verify: %s/%s is not tidy: run go mod tidy -modfile=%s there\n%s\n' "$1" "$file" "$file" "$why" >&2
    failed=1
  fi
}

for module in "${modules[@]}" "${tools[@]}"; do
  tidy "$module"
done
# Tidying asks for the tests of all that a module imports, many times of what its build needs, and a build that lacks a line of
# go.mod or go.sum fails by itself; so nothing is fetched for the originals without TIDY=all.
for module in "${originals[@]}"; do
  if [[ ${TIDY-} == all ]]; then
    tidy "$module"
  else
    GOPROXY=off tidy "$module"
  fi
done
for file in devcluster/versions/*.mod; do
  if [[ ${TIDY-} == all ]]; then
    tidy devcluster "${file#devcluster/}"
  else
    GOPROXY=off tidy devcluster "${file#devcluster/}"
  fi
done

while read -r file; do
  module=$(dirname "${file#./}")
  if [[ " ${modules[*]} ${programs[*]} ${tools[*]} ${originals[*]} " != *" $module "* ]]; then
    echo "verify: $module is in no list of hack/modules.sh: add it to the one that fits" >&2
    failed=1
  fi
done < <(find . -name go.mod -not -path './bin/*')
exit $failed
