#!/usr/bin/env bash
# Test the KServe participant on ONAP's own ACM runtime. RUNTIME_JAR is the jar of policy-clamp-runtime-acm, and RUNTIME_JAVA the java that
# runs it (java). Without the jar nothing is tested, and where the machine lacks PostgreSQL, Java or Maven: the script says NOT RUN then, and
# with REQUIRE=1 it fails. What was said on the topics is compared with what the stand-in for the runtime says.
# Usage: test-acm.sh folder
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/kafka.sh

not_run() {
  echo "test-acm: NOT RUN, since $1" >&2
  [[ ${REQUIRE-} != 1 ]] || exit 1
  exit 0
}

[[ -f ${RUNTIME_JAR-} ]] || not_run "RUNTIME_JAR (${RUNTIME_JAR:-empty}) names no jar of policy-clamp-runtime-acm"
# Debian keeps PostgreSQL's server programs out of the PATH.
initdb=$(command -v initdb || compgen -G '/usr/lib/postgresql/*/bin/initdb' | tail -1) || not_run "there is no PostgreSQL: no initdb in PATH or /usr/lib/postgresql"
kafka_lib test-acm

mkdir -p "$1"
RUNTIME_JAR=$(realpath "$RUNTIME_JAR") RUNTIME_JAVA=${RUNTIME_JAVA:-java} POSTGRES_BIN=$(dirname "$(realpath "$initdb")")
RUNTIME_LOG=$PWD/$1/runtime.log RUNTIME_RECORDING=$PWD/$1/recording.jsonl
export RUNTIME_JAR RUNTIME_JAVA POSTGRES_BIN RUNTIME_LOG RUNTIME_RECORDING
rm -f "$RUNTIME_LOG" "$RUNTIME_RECORDING"
echo "test-acm: $(basename "$RUNTIME_JAR"); its log is $RUNTIME_LOG"
go test -tags realacm -count=1 -timeout 30m -v ./test/kserve -run "${RUN-^TestRealRuntime$}"
[[ -s $RUNTIME_RECORDING ]] || exit 0
go test -tags realacm -count=1 -v ./test/acmruntime -run '^TestTheRuntimeThatWasRecorded$'
