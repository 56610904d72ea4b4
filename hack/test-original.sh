#!/usr/bin/env bash
# Test that MLKeeper takes over the running TrustyAIServices of the upstream operator itself, and hands them back. OPERATOR is the folder of a
# checkout of github.com/trustyai-explainability/trustyai-service-operator, which stays as it is: its program is built into a folder of ours. Without
# a checkout nothing is tested: the script says NOT RUN then, and with REQUIRE=1 it fails. RUN is a regular expression of the tests to run.
# Usage: test-original.sh folder
set -euo pipefail
cd "$(dirname "$0")/.."

not_run() {
  echo "test-original: NOT RUN, since $1" >&2
  [[ ${REQUIRE-} != 1 ]] || exit 1
  exit 0
}

[[ -n ${OPERATOR-} ]] || not_run "OPERATOR names no checkout of trustyai-service-operator"
[[ -f $OPERATOR/cmd/main.go && -d $OPERATOR/config/overlays/odh && -d $OPERATOR/config/components/tas ]] ||
  not_run "$OPERATOR is no checkout of trustyai-service-operator with config/components/tas"
ORIGINAL_CHECKOUT=$(cd "$OPERATOR" && pwd)
version=$(git -C "$ORIGINAL_CHECKOUT" describe --tags --always 2>/dev/null || basename "$ORIGINAL_CHECKOUT")
# Its own go.mod decides what it is built from.
hack/gobuild.sh -C "$ORIGINAL_CHECKOUT" -o "$1/manager" ./cmd

ORIGINAL_MANAGER=$PWD/$1/manager ORIGINAL_MLKEEPER=$PWD/bin/mlkeeper ORIGINAL_LOGS=$PWD/$1
export ORIGINAL_CHECKOUT ORIGINAL_MANAGER ORIGINAL_MLKEEPER ORIGINAL_LOGS
rm -f "$1"/*.log
echo "test-original: trustyai-service-operator $version; the logs of both operators are in $ORIGINAL_LOGS"
go test -tags realoriginal -count=1 -timeout 30m -v -run "${RUN-^TestRealOperator}" ./test/original
[[ -z ${RUN-} ]] || exit 0
# Its definition, however it was applied, with its webhook and without.
go test -tags realoriginal -count=1 -timeout 30m -v -run '^Test(Make|InstallFile)OverUpstreamsDefinition$' ./test/install -install.every-way
