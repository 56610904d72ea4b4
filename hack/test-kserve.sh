#!/usr/bin/env bash
# Test the participant on KServe's own controller, built from KServe's module at the version that hack/tools/kserve/go.mod pins, and
# hold what it tells against the stand-in's rules. Where the module cannot be fetched nothing is tested, and the script says
# NOT RUN; with REQUIRE=1 it fails then. With RECORD=1 what was recorded replaces the stand-in's test data.
# Usage: test-kserve.sh manager
set -euo pipefail
cd "$(dirname "$0")/.."

pin=hack/tools/kserve
module=github.com/kserve/kserve
if ! why=$(go -C "$pin" mod download "$module" 2>&1); then
  echo "test-kserve: NOT RUN, since $module cannot be fetched: $why" >&2
  [[ ${REQUIRE-} != 1 ]] || exit 1
  exit 0
fi
hack/gobuild.sh -C "$pin" -o "$1" "$module/cmd/manager"

out=$PWD/bin/kserve
mkdir -p "$out"
KSERVE_VERSION=$(go -C "$pin" list -m -f '{{.Version}}' "$module")
KSERVE_MODULE=$(go -C "$pin" list -m -f '{{.Dir}}' "$module")
export KSERVE_VERSION KSERVE_MODULE KSERVE_MANAGER=$PWD/$1 KSERVE_LOG=$out/manager.log KSERVE_RECORDING=$out/recording.json
echo "test-kserve: KServe $KSERVE_VERSION; its log is $KSERVE_LOG"
# The other tests of the package play the controller themselves, or need Knative.
go test -tags realkserve -count=1 -timeout 20m -v ./test/kserve \
  -run '^Test(RealKServe.*|Workflow|ManyServices|Orders|ScalingIsNoTrouble|UpdateIsRolledOut|Restart|RefusedByKServe|DefaultsOfKServe|KnownDefect.*)$'
if [[ ${RECORD-} == 1 ]]; then
  cp "$KSERVE_RECORDING" devcluster/internal/standin/testdata/kserve.json
fi
go -C devcluster test -count=1 -v -run '^TestRecording' ./internal/standin
