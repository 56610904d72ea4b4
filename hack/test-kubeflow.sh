#!/usr/bin/env bash
# Compare how MLKeeper renders the applications of Kubeflow's example with what kustomize build gives. MANIFESTS is the folder of a checkout
# of github.com/kubeflow/manifests. Without it nothing is tested: the script says NOT RUN then, and with REQUIRE=1 it fails.
# Usage: test-kubeflow.sh
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ! -e ${MANIFESTS-}/example/kustomization.yaml ]]; then
  echo "test-kubeflow: NOT RUN, since MANIFESTS (${MANIFESTS:-empty}) names no checkout of github.com/kubeflow/manifests" >&2
  [[ ${REQUIRE-} != 1 ]] || exit 1
  exit 0
fi
MANIFESTS=$(cd "$MANIFESTS" && pwd)
export MANIFESTS
echo "test-kubeflow: $(git -C "$MANIFESTS" describe --tags --always 2>/dev/null || echo "$MANIFESTS")"
# kustomize tells of each deprecated field, on lines of their own.
go test -tags realkubeflow -count=1 -timeout 20m -v -run '^TestRealKubeflow' ./internal/kubeflow 2>&1 | { grep -v '^# Warning:' || true; }
