#!/usr/bin/env bash
# Apply every mutation of test/faults/mutations to a copy of the tree, one by one, and print which campaign detects which.
# Arguments go to the runner: -bugs REGEXP, -campaigns REGEXP, -sample N, -seed N or -jobs N. Logs are in bin/mutations.
set -euo pipefail
cd "$(dirname "$0")/.."

export CGO_ENABLED=0
mkdir -p bin/mutations
# A binary of its own, so that signals reach it and not go run.
go build -o bin/mutations/mutations ./test/faults/mutations/cmd
exec bin/mutations/mutations "$@"
