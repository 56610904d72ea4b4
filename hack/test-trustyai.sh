#!/usr/bin/env bash
# Test what MLKeeper renders for TrustyAI's service on that program, and hold the stand-in of the test on a real node against it. SERVICE
# is the folder of a checkout of github.com/trustyai-explainability/trustyai-service, which stays as it is. PYTHON names a Python that is new
# enough where python3 is not. Without a checkout, a Python or its packages nothing is tested: the script says NOT RUN then, and with
# REQUIRE=1 it fails. With RECORD=1 what was recorded replaces the stand-in's test data. RUN is a regular expression of the tests to run.
# Usage: test-trustyai.sh folder
set -euo pipefail
cd "$(dirname "$0")/.."

not_run() {
  echo "test-trustyai: NOT RUN, since $1" >&2
  [[ ${REQUIRE-} != 1 ]] || exit 1
  exit 0
}

[[ -n ${SERVICE-} ]] || not_run "SERVICE names no checkout of trustyai-service"
[[ -f $SERVICE/pyproject.toml && -d $SERVICE/src/trustyai_service ]] || not_run "$SERVICE is no checkout of trustyai-service"
TRUSTYAI_SERVICE=$(cd "$SERVICE" && pwd)
TRUSTYAI_VERSION=$(git -C "$TRUSTYAI_SERVICE" describe --tags --always 2>/dev/null || basename "$TRUSTYAI_SERVICE")

python=
for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12}; do
  if "$candidate" -c 'import sys, venv; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1; then
    python=$candidate
    break
  fi
done
[[ -n $python ]] || not_run "there is no Python 3.12 or newer with venv: PYTHON can name one"
"$python" -c 'import os; os.unshare(os.CLONE_NEWNS | os.CLONE_NEWNET | (os.CLONE_NEWUSER if os.getuid() else 0))' 2>/dev/null ||
  not_run "this machine allows no namespaces"

# The packages are those that the service asks for, without its extras, of the versions that its image has.
venv=$1/venv
"$python" -m venv "$venv" >/dev/null 2>&1 || not_run "$python cannot make $venv"
grep -oE '^[A-Za-z0-9._-]+==[^ ]+' "$TRUSTYAI_SERVICE/requirements.txt" >"$1/constraints.txt" || true
"$venv/bin/python" -c 'import sys, tomllib; print("\n".join(tomllib.load(open(sys.argv[1], "rb"))["project"]["dependencies"]))' \
  "$TRUSTYAI_SERVICE/pyproject.toml" >"$1/requirements.txt"
if ! why=$("$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: -r "$1/requirements.txt" -c "$1/constraints.txt" 2>&1); then
  not_run "pip cannot install what $TRUSTYAI_SERVICE asks for: $why"
fi

TRUSTYAI_PYTHON=$PWD/$venv/bin/python TRUSTYAI_RECORDING=$PWD/$1/recording.json
export TRUSTYAI_SERVICE TRUSTYAI_VERSION TRUSTYAI_PYTHON TRUSTYAI_RECORDING
rm -f "$TRUSTYAI_RECORDING"
echo "test-trustyai: trustyai-service $TRUSTYAI_VERSION with $("$venv/bin/python" --version)"
go test -tags realtrustyai -count=1 -timeout 20m -v -run "${RUN-^TestRealService}" ./test/node/standin
[[ -s $TRUSTYAI_RECORDING ]] || exit 0
kept=test/node/standin/testdata/trustyai.json
if [[ ${RECORD-} == 1 ]]; then
  mkdir -p "$(dirname "$kept")"
  cp "$TRUSTYAI_RECORDING" "$kept"
fi
go test -count=1 -v -run '^TestRecording' ./test/node/standin
