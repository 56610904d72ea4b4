#!/usr/bin/env bash
# Print the version that git knows this tree by: the tag, or v0.0.0 and the commit.
set -euo pipefail
git describe --tags --match 'v*' --dirty 2>/dev/null ||
  { commit=$(git rev-parse --short HEAD 2>/dev/null) && echo "v0.0.0-dev-${commit}"; } ||
  echo v0.0.0-dev
