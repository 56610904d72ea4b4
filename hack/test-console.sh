#!/usr/bin/env bash
# Test the page of mlkeeper console in a Chromium, on what the demo shows. Without a Chromium nothing is tested, and the script says NOT RUN;
# with REQUIRE=1 it fails then. SCREENSHOTS is a folder to write the screenshots of docs/console.md to.
set -euo pipefail
cd "$(dirname "$0")/.."

for browser in chromium chromium-browser google-chrome; do
  ! command -v "$browser" >/dev/null || exec go -C hack/console test -tags realbrowser -count=1 -timeout 10m -v .
done
echo "test-console: NOT RUN, since there is no Chromium: a package chromium is in every distribution" >&2
[[ ${REQUIRE-} != 1 ]] || exit 1
