#!/usr/bin/env bash
# Run tests on the control plane of the oldest and of the newest release of Kubernetes that are supported. The newest is that of devcluster/go.mod,
# and a file devcluster/versions/MINOR.mod has the oldest. Packages may be given in place of test/e2e. Where a release cannot be
# fetched the script says NOT RUN, and with REQUIRE=1 it fails.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=("$@")
((${#packages[@]} > 0)) || packages=(./test/e2e)
failed=()
# on minor devcluster: run the tests on a control plane.
on() {
  echo "== Kubernetes $1: go test ${packages[*]}"
  MLKEEPER_DEVCLUSTER=$PWD/$2 go test -count=1 -timeout 30m "${packages[@]}" || failed+=("$1")
}

for file in devcluster/versions/*.mod; do
  minor=$(basename "$file" .mod)
  if ! why=$(go -C devcluster mod download -modfile="versions/$minor.mod" k8s.io/kubernetes 2>&1); then
    echo "test-versions: NOT RUN on Kubernetes $minor, since k8s.io/kubernetes cannot be fetched: $why" >&2
    [[ ${REQUIRE-} != 1 ]] || failed+=("$minor")
    continue
  fi
  GOBUILD_FLAGS="-modfile=versions/$minor.mod -tags=oldest" hack/gobuild.sh -C devcluster -o "bin/devcluster-$minor" .
  on "$minor" "bin/devcluster-$minor"
done
on "$(sed -n 's|^\tk8s.io/kubernetes v\(1\.[0-9]*\)\..*|\1|p' devcluster/go.mod)" bin/devcluster
((${#failed[@]} == 0)) || { echo "test-versions: failed on Kubernetes ${failed[*]}" >&2 && exit 1; }
