#!/usr/bin/env bash
# Delete MLKeeper's CustomResourceDefinitions with KUBECTL, and with them every custom resource of these kinds. A definition of the same name
# that is another operator's stays, with its custom resources: MLKeeper never applied it, or that operator has taken it back. It fails if they
# are not gone after TIMEOUT, such as 2m, and says beforehand which finalizers may delay them.
set -euo pipefail
cd "$(dirname "$0")/.."

read -r -a kubectl <<<"${KUBECTL:-kubectl}"
. hack/live.sh

ours=()
for file in config/crd/*/*_*.yaml; do
  found=$("${kubectl[@]}" get crd "$(name_of "$file")" --ignore-not-found -o "jsonpath=$live")
  IFS='|' read -r name owner strategy <<<"$found"
  if [[ -z $name ]]; then continue; fi
  if foreign "$owner" "$strategy"; then
    echo "$name is another operator's: it stays, with its custom resources."
  else
    ours+=("$name")
  fi
done
((${#ours[@]} > 0)) || exit 0
held=$(finalizers "${ours[@]}")
if [[ -n $held ]]; then
  echo "These custom resources go when the operator that set their finalizers removes them. If that operator runs no more, these commands do:"
  printf '%s\n' "$held"
fi
"${kubectl[@]}" delete crd --ignore-not-found --timeout="$TIMEOUT" "${ours[@]}"
