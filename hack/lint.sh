#!/usr/bin/env bash
# Run the golangci-lint binary given on every hand-written Go module.
set -euo pipefail

lint=$PWD/$1
config=$PWD/.golangci.yml
failed=0
for module in . devcluster hack/image hack/monitoring; do
  echo "== golangci-lint: $(go -C "$module" list -m)"
  (cd "$module" && "$lint" run --config "$config" ./...) || failed=1
done
exit $failed
