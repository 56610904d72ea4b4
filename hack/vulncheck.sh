#!/usr/bin/env bash
# Run the govulncheck binary given on the operator: it fails for a known vulnerability in what mlkeeper calls. Where the database cannot be
# reached nothing is checked, and the script says NOT RUN: a network that has no way there, as many builds have, must not stop a merge.
# REQUIRE_VULNDB=1 makes that an error, for the run that somebody reads.
set -euo pipefail
cd "$(dirname "$0")/.."

status=0
found=$("$1" ./cmd/mlkeeper 2>&1) || status=$?
case $status in
0) echo "vulncheck: no known vulnerability is in what ./cmd/mlkeeper calls" ;;
3)
  printf '%s\n' "$found" "vulncheck: raise the versions in go.mod, or the version of Go, to those that are fixed" >&2
  exit 1
  ;;
*)
  # The program has no status of its own for that. It names the address that it failed to read.
  if [[ $found != *"${GOVULNDB:-https://vuln.go.dev}"* ]]; then
    printf 'vulncheck: %s\n' "$found" >&2
    exit 1
  fi
  printf 'vulncheck: NOT RUN, since the database of vulnerabilities cannot be reached: %s\n' "$found" >&2
  [[ ${REQUIRE_VULNDB-} != 1 ]] || exit 1
  ;;
esac
