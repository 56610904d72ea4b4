#!/usr/bin/env bash
# Run the golangci-lint binary given on every hand-written Go module, the actionlint given on the workflows, and shellcheck on every
# script. Without shellcheck, which is no Go program, the scripts are NOT RUN, and so is a module whose imports cannot be fetched; REQUIRE=1
# makes that an error.
# Usage: lint.sh golangci-lint actionlint
set -euo pipefail
. hack/modules.sh

lint=$PWD/$1 actionlint=$PWD/$2
config=$PWD/.golangci.yml
failed=0
for module in "${programs[@]}"; do
  if fetch "golangci-lint" "$module"; then
    modules+=("$module")
  fi
done
for module in "${modules[@]}"; do
  echo "== golangci-lint: $(go -C "$module" list -m)"
  (cd "$module" && "$lint" run --config "$config" ./...) || failed=1
done
echo "== actionlint"
"$actionlint" || failed=1
if command -v shellcheck >/dev/null; then
  echo "== shellcheck"
  shellcheck -x .ci/run hack/*.sh || failed=1
else
  echo "== shellcheck: NOT RUN, it is not on the PATH; a package shellcheck is in every distribution" >&2
  [[ ${REQUIRE-} != 1 ]] || failed=1
fi
exit $failed
