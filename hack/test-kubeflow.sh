#!/usr/bin/env bash
# Compare how MLKeeper renders the applications of Kubeflow's example with what kustomize build gives. MANIFESTS is the folder of a checkout
# of github.com/kubeflow/manifests. Releases up to v1.3.1 have KfDefs in place of the example: of these the script compares how many objects
# they have, and which, with what kfctl made of them. Without a checkout nothing is tested: the script says NOT RUN then, and with REQUIRE=1
# it fails. What the kustomizations refer to by address comes from the network, or from git repositories and files below REMOTES, such as
# REMOTES/github.com/argoproj/argo-workflows.
# Usage: test-kubeflow.sh
set -euo pipefail
cd "$(dirname "$0")/.."

tests='^TestRealKubeflow'
if [[ -d ${MANIFESTS-}/kfdef || -d ${MANIFESTS-}/distributions/kfdef ]]; then
  tests='^TestKfctlRenderedAsMany$'
elif [[ ! -e ${MANIFESTS-}/example/kustomization.yaml ]]; then
  echo "test-kubeflow: NOT RUN, since MANIFESTS (${MANIFESTS:-empty}) names no checkout of github.com/kubeflow/manifests" >&2
  [[ ${REQUIRE-} != 1 ]] || exit 1
  exit 0
fi
MANIFESTS=$(cd "$MANIFESTS" && pwd)
REMOTES=${REMOTES:+$(cd "$REMOTES" && pwd)}
export MANIFESTS REMOTES
echo "test-kubeflow: $(git -C "$MANIFESTS" describe --tags --always 2>/dev/null || echo "$MANIFESTS")"
if [[ $tests == '^TestRealKubeflow' ]] &&
  ! sha256sum --status -c - <<<"71824a2877f32b91464365f4394b64b82bd89ecf58fa1ea5f211328af8f8563c  $MANIFESTS/example/kustomization.yaml"; then
  echo "test-kubeflow: NOT RUN is TestRealKubeflowSample, since config/samples has the KfDef of v1.11.0, and this is another release" >&2
  tests='^TestRealKubeflowIs'
fi
# kustomize tells of each deprecated field, on lines of their own.
go test -tags realkubeflow -count=1 -timeout 20m -v -run "$tests" ./internal/kubeflow 2>&1 | { grep -v '^# Warning:' || true; }
