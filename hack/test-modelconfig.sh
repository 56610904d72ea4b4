#!/usr/bin/env bash
# Compare MLKeeper's reader of model configs with protobuf's text format, and the descriptors that MLKeeper has of TensorFlow Serving's
# messages with those in PyPI's tensorflow-serving-api. UPDATE=1 writes the descriptors. Where there is no Python with venv, or its
# packages cannot be fetched, nothing is tested, and the script says NOT RUN; with REQUIRE=1 it fails then. A package that is not the one
# whose hash requirements.txt has fails it always.
set -euo pipefail
cd "$(dirname "$0")/.."

not_run() {
  echo "test-modelconfig: NOT RUN, since $1" >&2
  [[ ${REQUIRE-} != 1 ]] || exit 1
  exit 0
}

venv=$PWD/bin/modelconfig
python3 -m venv "$venv" >/dev/null 2>&1 || not_run "there is no python3 with venv"
# The package asks for all of TensorFlow, of which its messages need nothing.
if ! why=$("$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes --only-binary :all: --no-deps \
  -r hack/modelconfig/requirements.txt 2>&1); then
  if [[ $why == *"DO NOT MATCH THE HASHES"* ]]; then
    echo "test-modelconfig: $why" >&2
    exit 1
  fi
  not_run "pip cannot install hack/modelconfig/requirements.txt: $why"
fi
schema=internal/tfserving/protos/serving.textproto
packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
"$venv/bin/python" hack/modelconfig/judge.py schema "$packages" >"$venv/serving.textproto"
if [[ ${UPDATE-} == 1 ]]; then
  cp "$venv/serving.textproto" "$schema"
fi
diff "$schema" "$venv/serving.textproto"
PYTHON=$venv/bin/python go test -tags python -count=1 -vet=off ./internal/tfserving/modelconfig -run TestProtobufsVerdict
