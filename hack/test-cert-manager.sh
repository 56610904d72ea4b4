#!/usr/bin/env bash
# Test Secured services on cert-manager's own controllers, built from its module at the version that
# hack/tools/cert-manager/go.mod pins. Where the module cannot be fetched nothing is tested, and the script says NOT RUN; with
# REQUIRE=1 it fails then.
# Usage: test-cert-manager.sh program
set -euo pipefail
cd "$(dirname "$0")/.."

pin=hack/tools/cert-manager
module=github.com/cert-manager/cert-manager
if ! why=$(go -C "$pin" mod download "$module" 2>&1); then
  echo "test-cert-manager: NOT RUN, since $module cannot be fetched: $why" >&2
  [[ ${REQUIRE-} != 1 ]] || exit 1
  exit 0
fi
hack/gobuild.sh -C "$pin" -o "$1" .

CERT_MANAGER=$PWD/$1
CERT_MANAGER_LOG=$CERT_MANAGER.log
export CERT_MANAGER CERT_MANAGER_LOG
echo "test-cert-manager: cert-manager $(go -C "$pin" list -m -f '{{.Version}}' "$module"); its log is $CERT_MANAGER_LOG"
go test -tags realcertmanager -count=1 -timeout 20m -v ./test/certmanager
