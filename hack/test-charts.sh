#!/usr/bin/env bash
# Compare what becomes of charts with what Helm's own command makes of them. CHARTS is a folder of charts, each in two versions or more:
# NAME/VERSION is the folder of a chart with the charts that it depends on, or NAME/VERSION.tgz an archive, and NAME/values.yaml has values
# for all of them. First each version is rendered as by helm template; then each chart is installed, upgraded and downgraded as by helm
# upgrade, in clusters of their own. Without charts nothing is tested: the script says NOT RUN then, and with REQUIRE=1 it fails. RUN limits
# the tests.
# Usage: test-charts.sh
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ! -d ${CHARTS-} ]]; then
  echo "test-charts: NOT RUN, since CHARTS (${CHARTS:-empty}) names no folder of charts" >&2
  [[ ${REQUIRE-} != 1 ]] || exit 1
  exit 0
fi
CHARTS=$(cd "$CHARTS" && pwd)
export CHARTS
echo "test-charts: $(cd "$CHARTS" && echo *)"
go test -tags realcharts -count=1 -timeout 20m -v -run "${RUN:-^TestPublicCharts}" ./internal/manifest/helm
go test -tags realcharts -count=1 -timeout 60m -v -run "${RUN:-^TestPublicCharts}" ./test/seldon
