#!/usr/bin/env bash
# Apply the CustomResourceDefinitions of the engine and of CONTROLLERS (all by default) with KUBECTL, all of them or none. Those of
# other controllers stay as they are. Definitions that are another operator's, since a
# webhook of its converts their versions or it owns their fields, are adopted only with FORCE=1: the versions convert
# without a webhook then, and fields and objects stay.
set -euo pipefail
cd "$(dirname "$0")/.."

read -r -a kubectl <<<"${KUBECTL:-kubectl}"
apply=(apply --server-side)
[[ -z ${FORCE-} ]] || apply+=(--force-conflicts)
patch='{"spec":{"conversion":{"strategy":"None","webhook":null}}}'

folders=(config/crd/engine)
for controller in ${CONTROLLERS-trustyai tfserving kubeflow seldon kserve}; do
  folders+=("config/crd/$controller")
done
files=() foreign=()
for folder in "${folders[@]}"; do
  for file in "$folder"/*_*.yaml; do
    files+=(-f "$file")
    name=${file##*/} name=${name%.yaml}
    # A file is named GROUP_PLURAL.yaml, its definition PLURAL.GROUP.
    name=${name#*_}.${name%%_*}
    if [[ $("${kubectl[@]}" get crd "$name" --ignore-not-found -o 'jsonpath={.spec.conversion.strategy}') == Webhook ]]; then
      foreign+=("$name")
    fi
  done
done
if ((${#foreign[@]} > 0)) && [[ -z ${FORCE-} ]]; then
  cat >&2 <<MESSAGE
Nothing was installed: these CustomResourceDefinitions are another operator's, whose webhook converts their versions:
  ${foreign[*]}
Stop that operator for good (docs/trustyai.md says how), then run make again with FORCE=1, which adopts them.
MESSAGE
  exit 1
fi

# Everything is tried before anything is written. The files do not mention the conversion, which the API
# server would refuse to change together with them.
"${kubectl[@]}" "${apply[@]}" --dry-run=server "${files[@]}" >/dev/null || {
  echo "Nothing was installed. If the fields belong to another operator that you have stopped, run make again with FORCE=1." >&2
  exit 1
}
for dry in --dry-run=server ""; do
  for name in "${foreign[@]}"; do
    "${kubectl[@]}" patch crd "$name" --type=merge ${dry:+"$dry"} -p "$patch" >/dev/null
  done
done
for folder in "${folders[@]}"; do
  "${kubectl[@]}" "${apply[@]}" -k "$folder"
done
