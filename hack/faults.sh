#!/usr/bin/env bash
# Run the fault campaigns in their long form, random writes of tenants, the crashes of the participant at every step, brokers that do not work, and then the
# mutations that a campaign must detect; those that a test must detect are for "make test-bank". With PLAN=file, replay one plan, or several whose files are separated by commas. ARGS are further flags of the
# campaigns, such as -faults.campaigns=C1. docs/faults.md tells of both.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
export CGO_ENABLED=${CGO_ENABLED-0}
read -r -a args <<<"${ARGS-}"

if [[ -n ${PLAN-} ]]; then
  # The test runs in another folder.
  IFS=, read -r -a files <<<"$PLAN"
  plan=$(realpath "${files[@]}" | paste -sd,)
  exec go test ./test/faults -count=1 -v -run '^TestReplay$' -faults.plan="$plan" "${args[@]}"
fi
mkdir -p bin/faults
# Each long run takes another sample; ARGS=-faults.seed=N takes one again.
go test ./test/faults -count=1 -v -timeout 240m -run '^TestCampaigns$' -faults.long -faults.seed=0 \
  -faults.report="$root/bin/faults/report.json" -faults.table="$root/bin/faults/standing.md" "${args[@]}"
go test ./test/tenants -count=1 -v -timeout 120m -run '^TestTenants' -tenants.seed=0 -tenants.operations=20000
go test ./test/kserve -count=1 -v -timeout 60m -run '^(TestCrashAtEveryStep|TestBrokersThatDoNotWork)$' -crash.all -brokers.all
hack/mutations.sh -campaigns '^(C[0-9]|standing)$'
