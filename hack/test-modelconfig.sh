#!/usr/bin/env bash
# Compare MLKeeper's reader of model configs with protobuf's text format and the schema of PyPI's tensorflow-serving-api.
# UPDATE=1 writes testdata/schema.txt, which make test compares. Where there is no Python with venv nothing is tested, and
# the script says NOT RUN; with REQUIRE=1 it fails then.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=$PWD/bin/modelconfig
if ! python3 -m venv "$venv" >/dev/null 2>&1; then
  echo "test-modelconfig: NOT RUN, since there is no python3 with venv" >&2
  [[ ${REQUIRE-} != 1 ]] || exit 1
  exit 0
fi
# The package asks for all of TensorFlow, of which its messages need nothing.
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r hack/modelconfig/requirements.txt
schema=internal/tfserving/modelconfig/testdata/schema.txt
"$venv/bin/python" hack/modelconfig/judge.py schema >"$venv/schema.txt"
if [[ ${UPDATE-} == 1 ]]; then
  cp "$venv/schema.txt" "$schema"
fi
diff "$schema" "$venv/schema.txt"
PYTHON=$venv/bin/python go test -tags python -count=1 -vet=off ./internal/tfserving/modelconfig -run TestProtobufsVerdict
