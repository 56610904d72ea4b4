#!/usr/bin/env bash
# Generate everything again and fail if a file changed, or if a go.mod is not tidy. It compares with a copy and not with
# git, so it tells the truth on an uncommitted tree too; what it generated stays.
set -euo pipefail

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
failed=0

# Everything that make generate manifests writes.
generated() {
  find api -name 'zz_generated.*.go'
  find config -name '*.yaml' -o -name '*.json'
  find devcluster/internal/catalog/crds -name '*.yaml'
}

before=$copy/before after=$copy/after
mkdir -p "$before" "$after"
generated | xargs cp --parents -t "$before"
make manifests
generated | xargs cp --parents -t "$after"
if diff -ru "$before" "$after"; then
  echo "verify: generated files are up to date"
else
  echo "verify: generated files were out of date and have been written again: add them to your commit" >&2
  failed=1
fi

for module in . devcluster hack/catalog hack/image hack/monitoring hack/tools hack/tools/cert-manager hack/tools/golangci hack/tools/helm hack/tools/kserve hack/tools/rbac-proxy; do
  if go -C "$module" mod tidy -diff; then
    echo "verify: $module/go.mod is tidy"
  else
    echo "verify: $module/go.mod is not tidy: run go mod tidy there" >&2
    failed=1
  fi
done
exit $failed
