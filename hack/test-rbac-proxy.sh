#!/usr/bin/env bash
# Test what MLKeeper renders for kube-rbac-proxy on that program, built from its module at the version that
# hack/tools/rbac-proxy/go.mod pins, and hold the stand-in of the test on a real node against it. Where the module cannot be
# fetched nothing is tested, and the script says NOT RUN; with REQUIRE=1 it fails then.
# Usage: test-rbac-proxy.sh program
set -euo pipefail
cd "$(dirname "$0")/.."

pin=hack/tools/rbac-proxy
module=github.com/brancz/kube-rbac-proxy
if ! why=$(go -C "$pin" mod download "$module" 2>&1); then
  echo "test-rbac-proxy: NOT RUN, since $module cannot be fetched: $why" >&2
  [[ ${REQUIRE-} != 1 ]] || exit 1
  exit 0
fi
hack/gobuild.sh -C "$pin" -o "$1" "$module/cmd/kube-rbac-proxy"
echo "test-rbac-proxy: kube-rbac-proxy $(go -C "$pin" list -m -f '{{.Version}}' "$module")"
KUBE_RBAC_PROXY=$PWD/$1 go test -tags realproxy -count=1 -timeout 5m -v -run '^TestRealProxy$' ./test/node/standin
