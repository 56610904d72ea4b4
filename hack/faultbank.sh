#!/usr/bin/env bash
# Seed every bug of test/faults/bank into a copy of the tree, one by one, and print which campaign catches which.
# Arguments go to the runner: -bugs REGEXP, -campaigns REGEXP, -sample N, -seed N or -jobs N. Logs are in bin/faultbank.
set -euo pipefail
cd "$(dirname "$0")/.."

export CGO_ENABLED=0
mkdir -p bin/faultbank
# A binary of its own, so that signals reach it and not go run.
go build -o bin/faultbank/faultbank ./test/faults/bank/cmd
exec bin/faultbank/faultbank "$@"
