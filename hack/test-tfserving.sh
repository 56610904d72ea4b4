#!/usr/bin/env bash
# Run the tests of the stand-in for TensorFlow Serving on the real program: SERVER is a tensorflow_model_server. Without one nothing is
# tested, since make test runs the same tests on the stand-in: the script says NOT RUN then, and with REQUIRE=1 it fails.
set -euo pipefail
cd "$(dirname "$0")/.."

not_run() {
  echo "test-tfserving: NOT RUN, since $1" >&2
  [[ ${REQUIRE-} != 1 ]] || exit 1
  exit 0
}

[[ -n ${SERVER-} ]] || not_run "SERVER names no tensorflow_model_server"
[[ -f $SERVER && -x $SERVER ]] || not_run "$SERVER is no program"
TFSERVING_SERVER=$(cd "$(dirname "$SERVER")" && pwd)/$(basename "$SERVER")
export TFSERVING_SERVER
version=$("$TFSERVING_SERVER" --version 2>&1) || not_run "$SERVER does not start: $version"
echo "test-tfserving: ${version//$'\n'/, }"
go test -count=1 -timeout 20m -v -parallel 4 -run "${RUN-^TestServer}" ./test/tfserver
