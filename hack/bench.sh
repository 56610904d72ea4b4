#!/usr/bin/env bash
# The bench: measures MLKeeper against the API-server baseline, and prints a table of ratios; a page with
# plots, the figures as JSON and profiles are in bin/bench. docs/performance.md says how.
#   QUICK=1        small sizes, which show that the bench works and are no result
#   ONLY=a,b       some scenarios: converge, tfserv, edit, fairness, bombs, memory, idle, drift, restart, failover, kfdef, seldon, acm, peer
#   SCALE=1        100,000 managed objects, with one manager and with two; only that
#   ARGS=...       further flags, such as those of a peer; "bin/tools/bench --help" lists them
set -euo pipefail
cd "$(dirname "$0")/.."

hack/gobuild.sh -o bin/tools/bench ./test/bench
# The installation with every controller, and what an administrator grants for KfDefs and SeldonOperators.
IMG=mlkeeper:dev NAMESPACE=mlkeeper-system CONTROLLERS="trustyai tfserving kubeflow seldon" \
  COMPONENTS="participant manifests every-namespace" hack/overlay.sh
mkdir -p bin/bench
bin/tools/kustomize build bin/deploy >bin/bench/install.yaml
args=(--manifest bin/bench/install.yaml)
[ "${QUICK:-0}" = 1 ] && args+=(--quick)
[ -n "${ONLY-}" ] && args+=(--only "$ONLY")
[ "${SCALE:-0}" = 1 ] && args+=(--only scale --objects 100000)
# shellcheck disable=SC2086 # ARGS holds several flags; one with spaces in it is given to bin/tools/bench itself.
exec bin/tools/bench "${args[@]}" ${ARGS-} "$@"
