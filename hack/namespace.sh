#!/usr/bin/env bash
# The namespace NAMESPACE of the operator, with KUBECTL.
# Usage: namespace.sh check   fail where it exists and is not MLKeeper's, before make deploy changes it
#        namespace.sh prune   delete the generated ConfigMaps of earlier deployments, which no Deployment and no pod of it uses
#        namespace.sh delete  delete it if it is MLKeeper's and nothing of others is in it; else say what make undeploy leaves
#
# It is MLKeeper's with the label of config/manager/manager.yaml. An administrator who adds the label gives it to MLKeeper.
set -euo pipefail

read -r -a kubectl <<<"${KUBECTL:-kubectl}"
label=app.kubernetes.io/name
found=$("${kubectl[@]}" get namespace "$NAMESPACE" --ignore-not-found -o "jsonpath={.metadata.name}|{.metadata.labels.${label//./\\.}}")
IFS='|' read -r there owner <<<"$found"
[[ -n $there ]] || exit 0

if [[ $1 == check ]]; then
  [[ $owner != mlkeeper ]] || exit 0
  {
    echo "Nothing was deployed: the namespace $NAMESPACE exists, and is not MLKeeper's. Whoever may create pods in it could act as the operator, and its"
    echo "own pods would have to meet the pod security standard \"restricted\". Name another one, such as NAMESPACE=mlkeeper-system, or give this one"
    echo "to MLKeeper: kubectl label namespace $NAMESPACE $label=mlkeeper"
  } >&2
  exit 1
fi
# generated has the label of the ConfigMaps that kustomize generates, with a hash of the content in their names.
generated=keeper.mlkeeper.dev/generated
if [[ $1 == prune ]]; then
  # The pods of the Deployment before run until those of the next are ready, and `kubectl rollout undo` starts those of a ReplicaSet again.
  used=$("${kubectl[@]}" get deployments,replicasets,pods -n "$NAMESPACE" \
    -o 'jsonpath={range .items[*]}{range .spec.volumes[*]}{.configMap.name}{"\n"}{end}{range .spec.template.spec.volumes[*]}{.configMap.name}{"\n"}{end}{end}')
  for name in $("${kubectl[@]}" get configmaps -n "$NAMESPACE" -l "$generated" -o 'jsonpath={.items[*].metadata.name}'); do
    grep -qx "$name" <<<"$used" || "${kubectl[@]}" delete configmap -n "$NAMESPACE" --ignore-not-found "$name"
  done
  exit 0
fi
# make undeploy has deleted the one of the present content alone.
"${kubectl[@]}" delete configmaps -n "$NAMESPACE" -l "$generated" --ignore-not-found
if [[ $owner != mlkeeper ]]; then
  echo "The namespace $NAMESPACE is not MLKeeper's: it stays."
  exit 0
fi

# foreign prints the objects in the namespace, but for what the operator itself makes there, what other objects own, and what the control planes
# of Kubernetes and OpenShift make in each namespace. What make deploy applied is gone by then.
foreign() {
  local kinds
  # EndpointSlices have what Endpoints have, for which the API server warns.
  kinds=$("${kubectl[@]}" api-resources --namespaced --verbs=list,delete -o name | grep -vx endpoints | paste -sd, -) &&
    "${kubectl[@]}" get "$kinds" -n "$NAMESPACE" \
      -o 'jsonpath={range .items[*]}{.kind}/{.metadata.name}|{.type}|{.metadata.ownerReferences[*].name}{"\n"}{end}' |
    awk -F'|' '
      $1 == "" || $3 != "" { next }
      $1 ~ /^(Event|EndpointSlice)\// { next }
      $1 == "Secret/mlkeeper-digest-key" || $1 ~ /^Lease\/mlkeeper/ { next }
      $1 ~ /^ConfigMap\/(kube-root-ca|openshift-service-ca)\.crt$/ { next }
      $1 ~ /^ServiceAccount\/(default|builder|deployer)$/ { next }
      $1 ~ /^RoleBinding\/system:/ { next }
      $1 ~ /^Secret\// && $2 ~ /^(kubernetes\.io\/(service-account-token|dockercfg)|keeper\.mlkeeper\.dev\/payload)$/ { next }
      { print "  " $1 }' | sort -u
}

# The API server still names kinds for a moment whose definitions were just deleted.
for ((try = 1; ; try++)); do
  if left=$(foreign); then break; fi
  if ((try == 5)); then
    echo "The namespace $NAMESPACE stays, since what is in it could not be listed. This deletes it, with all of that: kubectl delete namespace $NAMESPACE"
    exit 0
  fi
  sleep 2
done
if [[ -n $left ]]; then
  echo "The namespace $NAMESPACE stays, since MLKeeper did not make everything in it:"
  printf '%s\n' "$left"
  echo "This deletes it, with all of that: kubectl delete namespace $NAMESPACE"
  exit 0
fi
"${kubectl[@]}" delete namespace --ignore-not-found "$NAMESPACE"
