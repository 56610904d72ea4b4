#!/usr/bin/env bash
# Test the ServiceMonitors that MLKeeper renders on the Prometheus operator's selector and generator and on Prometheus' loader,
# discovery and scraper, built from their modules at the versions that hack/tools/prometheus-operator/go.mod and
# hack/servicemonitors/go.mod pin; the two do not compile with each other's. Where they cannot be fetched nothing is tested, and the
# script says NOT RUN; with REQUIRE=1 it fails then.
# Usage: test-servicemonitors.sh program
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/modules.sh

operator=hack/tools/prometheus-operator prometheus=hack/servicemonitors
for module in "$operator" "$prometheus"; do
  fetch test-servicemonitors "$module" || exit 0
done
hack/gobuild.sh -C "$operator" -o "$1" .
echo "test-servicemonitors: $(go -C "$operator" list -m github.com/prometheus-operator/prometheus-operator)," \
  "$(go -C "$prometheus" list -m github.com/prometheus/prometheus)"
PROMETHEUS_OPERATOR=$PWD/$1 go -C "$prometheus" test -count=1 -vet=off -timeout 10m ./...
