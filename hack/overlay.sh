#!/usr/bin/env bash
# Write bin/deploy/kustomization.yaml, which deploys config/operator with the image IMG, the controllers CONTROLLERS and the parts of
# config/components that COMPONENTS names to the namespace NAMESPACE, and bin/deploy/off/kustomization.yaml with the rights and
# objects of the other parts. Definitions are never among the latter: with them every custom resource would go.
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

on=() off=() resources=''
for name in "${controllers[@]}" "${parts[@]}"; do
  if [[ $chosen == *" $name "* ]]; then
    on+=("$name")
  elif [[ $name != monitoring ]]; then
    off+=("$name")
  else
    # The kinds of monitoring are not in every cluster, and what it alerts about is not there either when it is left out. The token is.
    resources=$'resources:\n  - ../../../config/monitoring/reader\n'
  fi
done

rm -rf bin/deploy && mkdir -p bin/deploy
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
    cat <<'YAML'
patches:
  - target:
      kind: CustomResourceDefinition
    patch: |-
      $patch: delete
      apiVersion: apiextensions.k8s.io/v1
      kind: CustomResourceDefinition
      metadata:
        name: any
YAML
    components ../../.. "${off[@]}"
  } | kustomization >bin/deploy/off/kustomization.yaml
fi
