#!/usr/bin/env bash
# Test the page of mlkeeper console in a Chromium, on what the demo shows. Without a Chromium nothing is tested, and the script says NOT RUN;
# with REQUIRE=1 it fails then. SCREENSHOTS is a folder to write the screenshots of docs/console.md to, and STACKS how many custom resources
# the overview is measured with. axe-core, which checks the accessibility, comes from the npm registry; where it cannot be had, its part
# says NOT RUN.
set -euo pipefail
cd "$(dirname "$0")/.."

axe=4.14.1
digest='FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=='
folder=bin/axe-core/$axe
if [[ ! -s $folder/axe.min.js ]] && command -v npm >/dev/null && command -v openssl >/dev/null; then
  mkdir -p "$folder"
  if npm pack "axe-core@$axe" --silent --pack-destination "$folder" >/dev/null 2>&1 &&
    [[ $(openssl dgst -sha512 -binary "$folder/axe-core-$axe.tgz" | base64 -w0) == "$digest" ]]; then
    tar -C "$folder" -xzf "$folder/axe-core-$axe.tgz" --strip-components=1 package/axe.min.js
  fi
  rm -f "$folder/axe-core-$axe.tgz"
fi
if [[ -s $folder/axe.min.js ]]; then
  export AXE="$PWD/$folder/axe.min.js"
else
  echo "test-console: axe-core NOT RUN: npm or openssl is missing, or axe-core $axe with the expected digest cannot be downloaded" >&2
fi

for browser in chromium chromium-browser google-chrome; do
  ! command -v "$browser" >/dev/null || exec go -C hack/console test -tags realbrowser -count=1 -timeout 10m -v .
done
echo "test-console: NOT RUN, since there is no Chromium: a package chromium is in every distribution" >&2
[[ ${REQUIRE-} != 1 ]] || exit 1
