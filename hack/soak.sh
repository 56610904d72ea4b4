#!/usr/bin/env bash
# Run the operator for HOURS while users, faults and upgrades go on, and fail if its memory, goroutines, open files or maps grow.
# ARGS are further flags of the test, such as -faults.seed=7. docs/faults.md tells how to read the report in bin/soak.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
export CGO_ENABLED=${CGO_ENABLED-0}
read -r -a args <<<"${ARGS-}"

mkdir -p bin/soak
# Each soak takes another seed; ARGS=-faults.seed=N takes one again.
exec go test ./test/faults -count=1 -v -timeout 0 -run '^TestSoak$' -faults.seed=0 -faults.parallel=3 \
  -faults.soak="${HOURS-2}h" -faults.soak.folder="$root/bin/soak" "${args[@]}"
