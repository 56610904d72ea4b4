#!/usr/bin/env bash
# Write bin/deploy/kustomization.yaml, which deploys config/operator with the image IMG, the controllers CONTROLLERS and the parts of
# config/components that COMPONENTS names to the namespace NAMESPACE, and bin/deploy/off/kustomization.yaml with the rights and
# objects of the other parts. Definitions are never among the latter: with them every custom resource would go. bin/undeploy/kustomization.yaml
# has what make undeploy deletes of the former by name, which are not the definitions either, nor the Namespace: another operator may have them.
set -euo pipefail
cd "$(dirname "$0")/.."

controllers=(trustyai tfserving kubeflow seldon)
parts=()
for folder in config/components/*/; do
  name=$(basename "$folder")
  [[ " ${controllers[*]} " == *" $name "* ]] || parts+=("$name")
done
chosen=" ${COMPONENTS-} "
for name in ${CONTROLLERS-}; do
  if [[ $name == kserve ]]; then
    echo "the controller kserve comes with the component participant: name it in COMPONENTS" >&2
    exit 1
  fi
  if [[ " ${controllers[*]} " != *" $name "* ]]; then
    echo "there is no controller \"$name\"; there are: ${controllers[*]}" >&2
    exit 1
  fi
  chosen+="$name "
done
for name in ${COMPONENTS-}; do
  if [[ " ${controllers[*]} " == *" $name "* ]]; then
    echo "$name is a controller: name it in CONTROLLERS" >&2
    exit 1
  fi
  if [[ " ${parts[*]} " != *" $name "* ]]; then
    echo "there is no component \"$name\"; there are: ${parts[*]}" >&2
    exit 1
  fi
  if [[ $name == trusted && $chosen != *" kubeflow "* && $chosen != *" seldon "* ]]; then
    echo "the component trusted is for KfDefs and SeldonOperators, whose controllers are off: name kubeflow or seldon in CONTROLLERS" >&2
    exit 1
  fi
done

# kustomization prints one for the namespace, with what is read.
kustomization() {
  printf 'apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: "%s"\n' "$NAMESPACE"
  cat
}
# components prints the list of some of them, at a depth below the root.
components() {
  local up=$1
  shift
  (($# == 0)) || printf "components:\n"
  (($# == 0)) || printf "  - $up/config/components/%s\n" "$@"
}
# without prints a patch that leaves out the objects of a kind, or one of a name.
without() {
  local version=$1 kind=$2 name=${3-}
  cat <<YAML
  - target: {kind: $kind${name:+, name: $name}}
    patch: |-
      \$patch: delete
      apiVersion: $version
      kind: $kind
      metadata: {name: ${name:-any}}
YAML
}
# monitored: whether the cluster of KUBECTL has the kinds of the Prometheus operator. Without KUBECTL there is no cluster.
monitored() {
  local kubectl kinds
  read -r -a kubectl <<<"${KUBECTL-}"
  ((${#kubectl[@]} > 0)) || return 1
  # It fails where another API is not available, too, and prints the others.
  kinds=$("${kubectl[@]}" api-resources --api-group=monitoring.coreos.com -o name || true)
  grep -qx 'prometheusrules\..*' <<<"$kinds"
}

on=() off=() resources=''
for name in "${controllers[@]}" "${parts[@]}"; do
  if [[ $chosen == *" $name "* ]]; then
    on+=("$name")
  elif [[ $name != monitoring ]]; then
    off+=("$name")
  else
    # The kinds of monitoring are not in every cluster. The token is.
    resources=$'resources:\n  - ../../../config/monitoring'
    monitored || resources+=/reader
    resources+=$'\n'
  fi
done

rm -rf bin/deploy bin/undeploy && mkdir -p bin/deploy bin/undeploy
{
  cat <<YAML
resources:
  - ../../config/operator
patches:
  - target:
      kind: Deployment
      labelSelector: app.kubernetes.io/name=mlkeeper
    patch: |-
      - op: replace
        path: /spec/template/spec/containers/0/image
        value: "$IMG"
YAML
  components ../.. "${on[@]}"
} | kustomization >bin/deploy/kustomization.yaml
if ((${#off[@]} > 0)) || [[ -n $resources ]]; then
  mkdir bin/deploy/off
  {
    printf '%s' "$resources"
    printf 'patches:\n'
    without apiextensions.k8s.io/v1 CustomResourceDefinition
    # The proxies of Secured services, which keep running, are bound to it.
    without rbac.authorization.k8s.io/v1 ClusterRole mlkeeper-trustyai-proxy
    components ../../.. "${off[@]}"
  } | kustomization >bin/deploy/off/kustomization.yaml
fi
{
  printf 'resources:\n  - ../deploy\npatches:\n'
  without apiextensions.k8s.io/v1 CustomResourceDefinition
  without v1 Namespace
} | kustomization >bin/undeploy/kustomization.yaml
