#!/usr/bin/env bash
# Test MLKeeper on KServe's own controller and agent, and hold what the controller tells against the stand-in's rules. KSERVE is the
# version of KServe's module, such as v0.17.0, or the folder of a checkout. Without it nothing is tested, and where the module cannot
# be fetched: the script says NOT RUN then, and with REQUIRE=1 it fails. IDLE is how long neither side may write (2m). With RECORD=1
# what was recorded replaces the stand-in's test data. RUN is a regular expression of the tests to run.
# Usage: test-kserve.sh folder
set -euo pipefail
cd "$(dirname "$0")/.."

not_run() {
  echo "test-kserve: NOT RUN, since $1" >&2
  [[ ${REQUIRE-} != 1 ]] || exit 1
  exit 0
}

module=github.com/kserve/kserve
if [[ -z ${KSERVE-} ]]; then
  not_run "KSERVE names neither a version of $module, such as v0.17.0, nor a checkout"
elif [[ -d $KSERVE ]]; then
  KSERVE_MODULE=$(cd "$KSERVE" && pwd)
  KSERVE_VERSION=$(git -C "$KSERVE_MODULE" describe --tags --always 2>/dev/null || basename "$KSERVE_MODULE")
else
  # KServe's own go.mod decides what it is built from, replacements included, so it is built in the folder of its module.
  why=$(go mod download "$module@$KSERVE" 2>&1) || not_run "$module@$KSERVE cannot be fetched: $why"
  KSERVE_MODULE=$(go env GOMODCACHE)/$module@$KSERVE
  KSERVE_VERSION=$KSERVE
fi
out=$1/$KSERVE_VERSION
for program in manager agent; do
  hack/gobuild.sh -C "$KSERVE_MODULE" -o "$out/$program" "./cmd/$program"
done

KSERVE_MANAGER=$PWD/$out/manager KSERVE_AGENT=$PWD/$out/agent KSERVE_LOG=$PWD/$out/manager.log KSERVE_RECORDING=
kept=devcluster/internal/standin/testdata/kserve.json
if [[ ${RECORD-} == 1 ]] || grep -q "\"version\": \"$KSERVE_VERSION\"" "$kept"; then
  KSERVE_RECORDING=$PWD/$out/recording.json
  rm -f "$KSERVE_RECORDING"
else
  echo "test-kserve: the stand-in plays another version, and is not compared with $KSERVE_VERSION"
fi
KSERVE_IDLE=${IDLE:-2m}
export KSERVE_VERSION KSERVE_MODULE KSERVE_MANAGER KSERVE_AGENT KSERVE_LOG KSERVE_RECORDING KSERVE_IDLE
echo "test-kserve: KServe $KSERVE_VERSION; its log is $KSERVE_LOG"
# The other tests of the package play the controller themselves, or need Knative.
go test -tags realkserve -count=1 -timeout 60m -v ./test/kserve \
  -run "${RUN-^Test(RealKServe.*|Workflow|ManyServices|Orders|ScalingIsNoTrouble|UpdateIsRolledOut|UpdateToABadModelAndBack|Restart|RefusedByKServe|DefaultsOfKServe|KnownDefect.*)$}"
[[ -s $KSERVE_RECORDING ]] || exit 0
if [[ ${RECORD-} == 1 ]]; then
  cp "$KSERVE_RECORDING" "$kept"
fi
go -C devcluster test -count=1 -v -run '^TestRecording' ./internal/standin
