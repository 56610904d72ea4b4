#!/usr/bin/env bash
# Run the tests that need a cluster and compare what the operator asked of the API servers, by their audit logs, with the roles in config/:
# print for each right whether it was used, and fail if one is unused or missing that test/rights/reasons.yaml gives no reason for. With
# packages given, which do not use every right, only missing ones fail. FLAGS are further flags of go test, such as -run.
# Usage: rbac-minimal.sh [package...]
set -euo pipefail
cd "$(dirname "$0")/.."

partial=true packages=("$@")
if ((${#packages[@]} == 0)); then
  partial=false
  packages=(./test/e2e ./test/idle ./test/invariants ./test/kserve ./test/kubeflow ./test/seldon ./test/shards ./test/tenants ./test/tfserv ./test/uninstall)
fi
# A test of each controller.
listing='^(TestEveryChildIsRepairedAndGoes|TestADRManifestUnchangedBecomesReadyWithTheADRsChildren|TestUpdateIsRolledOut|TestTheLeastRights|TestTheClusterIsNoSource|TestLife)$'
export MLKEEPER_RIGHTS=$PWD/bin/rights
rm -rf "$MLKEEPER_RIGHTS" && mkdir -p "$MLKEEPER_RIGHTS"
# What tests used counts although one fails for another reason; the exit status tells of both.
failed=0
# shellcheck disable=SC2086 # FLAGS holds several flags.
go test -count=1 -vet=off -p 1 -timeout 60m ${FLAGS-} "${packages[@]}" || failed=1
if ! $partial; then
  # Where the API server does not stream the first state of a watch, client-go lists it.
  KUBE_FEATURE_WatchListClient=false go test -count=1 -vet=off -p 1 -timeout 30m -run "$listing" ./test/e2e ./test/kserve ./test/kubeflow ./test/seldon \
    ./test/tfserv || failed=1
fi
go run ./test/rights/minimal -used "$MLKEEPER_RIGHTS" -partial=$partial || failed=1
exit $failed
