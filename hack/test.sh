#!/usr/bin/env bash
# Vet and test every module of hack/modules.sh with code of ours, or only the packages given, which are those of the main module. RACE=1 tests with
# the race detector and does not vet; without a C compiler, which that detector needs, it says NOT RUN, and REQUIRE=1 fails then.
set -euo pipefail
. hack/modules.sh

flags=(-shuffle=on -timeout 30m -p 2 -count=1)
# Every build tag, so that what runs by hand only compiles too.
tags=kafka,python,realacm,realbrowser,realcertmanager,realcharts,realhelm,realinstall,realkserve,realkubeflow,realnode,realoriginal,realproxy,realtrustyai
if [[ ${RACE-} == 1 ]]; then
  flags+=(-race)
  export CGO_ENABLED=1
  if ! command -v "$(go env CC)" >/dev/null; then
    echo "test-race: NOT RUN, since there is no C compiler $(go env CC): a package gcc is in every distribution" >&2
    [[ ${REQUIRE-} != 1 ]] || exit 1
    exit 0
  fi
fi
packages=("$@")
if ((${#packages[@]} > 0)); then
  modules=(.)
else
  packages=(./...)
fi
# vet module
vet() {
  [[ ${RACE-} != 1 ]] || return 0
  echo "== $(go -C "$1" list -m): go vet -tags $tags ${packages[*]}"
  go -C "$1" vet -tags "$tags" "${packages[@]}"
}
failed=()
for module in "${modules[@]}"; do
  name=$(go -C "$module" list -m)
  vet "$module" || failed+=("$name")
  # go vet has just run in full, so go test need not repeat its part of it.
  echo "== $name: go test ${flags[*]} ${packages[*]}"
  go -C "$module" test -vet=off "${flags[@]}" "${packages[@]}" || failed+=("$name")
done
if ((${#failed[@]} > 0)); then
  echo "== failed: ${failed[*]}" >&2
  exit 1
fi
echo "== all tests passed"
