#!/usr/bin/env bash
# Vet and test the main module, devcluster/, hack/catalog/, hack/image/ and hack/monitoring/, or only the packages given. RACE=1 adds the race detector.
set -euo pipefail

flags=(-shuffle=on -timeout 30m -p 2 -count=1)
if [[ ${RACE-} == 1 ]]; then
  flags+=(-race)
  export CGO_ENABLED=1
fi
modules=(. devcluster hack/catalog hack/image hack/monitoring)
packages=("$@")
if ((${#packages[@]} > 0)); then
  modules=(.)
else
  packages=(./...)
fi
for module in "${modules[@]}"; do
  name=$(go -C "$module" list -m)
  # With every build tag, so that what runs by hand only compiles too.
  echo "== $name: go vet -tags kafka,python,realcertmanager,realkserve,realnode,realproxy ${packages[*]}"
  go -C "$module" vet -tags kafka,python,realcertmanager,realkserve,realnode,realproxy "${packages[@]}"
  # go vet has just run in full, so go test need not repeat its part of it.
  echo "== $name: go test ${flags[*]} ${packages[*]}"
  go -C "$module" test -vet=off "${flags[@]}" "${packages[@]}"
done
echo "== all tests passed"
