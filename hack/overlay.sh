#!/usr/bin/env bash
# Write bin/deploy/kustomization.yaml, which deploys config/default with the image IMG and the parts of config/components
# that COMPONENTS names to the namespace NAMESPACE, and bin/deploy/off/kustomization.yaml with the objects of the other parts.
set -euo pipefail
cd "$(dirname "$0")/.."

chosen=" ${COMPONENTS-} "
for name in $chosen; do
  if [[ ! -e config/components/$name/kustomization.yaml ]]; then
    echo "there is no component \"$name\"; those in config/components are: $(cd config/components && echo *)" >&2
    exit 1
  fi
done

# kustomization prints one for the namespace, with the components given and what is read, at a depth below the root.
kustomization() {
  local up=$1
  shift
  printf 'apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: %s\n' "$NAMESPACE"
  cat
  if (($# > 0)); then
    printf 'components:\n'
    printf "  - $up/config/components/%s\n" "$@"
  fi
}

on=() off=()
for folder in config/components/*; do
  name=${folder##*/}
  if [[ $chosen == *" $name "* ]]; then
    on+=("$name")
  elif [[ $name != monitoring ]]; then
    # The kinds of monitoring are not in every cluster, and what it alerts about is not there either when it is left out.
    off+=("$name")
  fi
done

rm -rf bin/deploy && mkdir -p bin/deploy
kustomization ../.. "${on[@]}" >bin/deploy/kustomization.yaml <<YAML
resources:
  - ../../config/default
patches:
  - target:
      kind: Deployment
      name: mlkeeper-controller-manager
    patch: |-
      - op: replace
        path: /spec/template/spec/containers/0/image
        value: "$IMG"
YAML
if ((${#off[@]} > 0)); then
  mkdir bin/deploy/off
  kustomization ../../.. "${off[@]}" >bin/deploy/off/kustomization.yaml </dev/null
fi
