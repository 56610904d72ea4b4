#!/usr/bin/env bash
# Apply the CustomResourceDefinitions of the engine and of CONTROLLERS (all by default) with KUBECTL, all of them or none. Those of
# other controllers stay as they are. It can be run again.
#
# A definition of an original operator is adopted, whoever applied it: its versions convert without a webhook from then on,
# and objects stay. Only FORCE=1 adopts one whose webhook still answers, since its operator then runs, and only FORCE=1 takes
# fields of MLKeeper's own definitions from another tool that has applied them, such as Argo CD. `mlkeeper check --pre` judges alike.
set -euo pipefail
cd "$(dirname "$0")/.."

read -r -a kubectl <<<"${KUBECTL:-kubectl}"
[[ ${FORCE-} == 1 ]] || FORCE=''
apply=(apply --server-side)
patch='{"spec":{"conversion":{"strategy":"None","webhook":null}}}'
. hack/live.sh
state=$live'|{.spec.conversion.webhook.clientConfig.service.namespace}|{.spec.conversion.webhook.clientConfig.service.name}'
state+='|{.spec.preserveUnknownFields}|{.metadata.deletionTimestamp}'
changed=$(mktemp -d)
trap 'rm -rf "$changed"' EXIT

folders=(config/crd/engine)
for controller in ${CONTROLLERS-trustyai tfserving kubeflow seldon kserve}; do
  folders+=("config/crd/$controller")
done
plain=() forced=() pruning=() webhooks=() answering=() deleting=() adopting=() adopted_folders=" "
for folder in "${folders[@]}"; do
  for file in "$folder"/*_*.yaml; do
    name=$(name_of "$file")
    found=$("${kubectl[@]}" get crd "$name" --ignore-not-found -o "jsonpath=$state")
    IFS='|' read -r there owner strategy namespace service unknown deleted <<<"$found"
    [[ -z $deleted ]] || deleting+=("$name")
    converter=${service:+"the Service $namespace/$service"}
    if [[ $strategy == Webhook ]]; then
      webhooks+=("$name")
      # What is not a Service of the cluster counts as answering.
      ready=true
      if [[ -n $service ]]; then
        ready=$("${kubectl[@]}" get endpointslices -n "$namespace" -l "kubernetes.io/service-name=$service" \
          -o 'jsonpath={.items[*].endpoints[*].conditions.ready}')
      fi
      [[ $ready != *true* ]] || answering+=("  $name, whose versions ${converter:-a URL} converts")
    fi
    if [[ -n $there ]] && foreign "$owner" "$strategy"; then
      adopted_folders+="$folder "
      managers=$("${kubectl[@]}" get crd "$name" --show-managed-fields -o 'jsonpath={.metadata.managedFields[*].manager}')
      managers=$(tr ' ' '\n' <<<"$managers" | sort -u | sed '/^kube-apiserver$/d' | xargs)
      adopting+=("$name is another operator's, written by $managers: MLKeeper adopts it${service:+, without $converter}; objects stay.")
    fi
    if [[ $unknown == true ]]; then
      # It was made as apiextensions v1beta1, whose objects keep unknown fields. The schemas and this field change in one write only, and
      # MLKeeper's files do not have the field, since a value that is false would be a conflict for the next tool that applies it.
      sed 's/^spec:$/spec:\n  preserveUnknownFields: false/' "$file" >"$changed/${file##*/}"
      pruning+=(-f "$changed/${file##*/}") forced+=(-f "$changed/${file##*/}")
    elif [[ $strategy == Webhook ]]; then
      # The dry run has the conversion that stands. Of one that kubectl applied, whose name is ours, it would else remove all but what others
      # wrote, such as the authority of OpenShift's service-ca, and what is left of it is no conversion.
      CONVERSION=$("${kubectl[@]}" get crd "$name" -o 'jsonpath={.spec.conversion}') \
        awk '{ print } /^spec:$/ { print "  conversion: " ENVIRON["CONVERSION"] }' "$file" >"$changed/${file##*/}"
      forced+=(-f "$changed/${file##*/}")
    elif [[ -n ${FORCE-} || $adopted_folders == *" $folder "* ]]; then forced+=(-f "$file"); else plain+=(-f "$file"); fi
  done
done
if ((${#deleting[@]} > 0)); then
  {
    printf 'Nothing was installed: %s is being deleted, and with it every object of its kind.\n' "${deleting[@]}"
    echo "Wait until it is gone, or remove what holds it:"
    finalizers "${deleting[@]}"
  } >&2
  exit 1
fi
if ((${#answering[@]} > 0)) && [[ -z ${FORCE-} ]]; then
  {
    echo "Nothing was installed: the operator of these CustomResourceDefinitions still runs:"
    printf '%s\n' "${answering[@]}"
    echo "Stop it for good (docs/trustyai.md says how), then run make again. FORCE=1 adopts them nevertheless, which is right where that"
    echo "operator stays for other kinds only."
  } >&2
  exit 1
fi
((${#adopting[@]} == 0)) || printf '%s\n' "${adopting[@]}"

# Everything is tried before anything is written. The files do not mention the conversion, which the API
# server would refuse to change together with them.
try=("${apply[@]}" --dry-run=server)
if ! { ((${#plain[@]} == 0)) || "${kubectl[@]}" "${try[@]}" "${plain[@]}" >/dev/null; } ||
  ! { ((${#forced[@]} == 0)) || "${kubectl[@]}" "${try[@]}" --force-conflicts "${forced[@]}" >/dev/null; }; then
  echo "Nothing was installed. If fields of MLKeeper's definitions belong to a tool that shall no longer apply them, run make again with FORCE=1." >&2
  exit 1
fi
for dry in --dry-run=server ""; do
  for name in "${webhooks[@]}"; do
    "${kubectl[@]}" patch crd "$name" --type=merge ${dry:+"$dry"} -p "$patch" >/dev/null
  done
done
((${#pruning[@]} == 0)) || "${kubectl[@]}" "${apply[@]}" --force-conflicts "${pruning[@]}"
for folder in "${folders[@]}"; do
  force=${FORCE:+--force-conflicts}
  [[ $adopted_folders != *" $folder "* ]] || force=--force-conflicts
  "${kubectl[@]}" "${apply[@]}" ${force:+"$force"} -k "$folder"
done
