#!/usr/bin/env bash
# Write a kustomization into the folder given that deploys config/default with the image IMG to the namespace NAMESPACE.
set -euo pipefail

mkdir -p "$1"
cat >"$1/kustomization.yaml" <<EOF
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: $NAMESPACE
resources:
  - $(realpath --relative-to="$1" config/default)
patches:
  - target:
      kind: Deployment
      name: mlkeeper-controller-manager
    patch: |-
      - op: replace
        path: /spec/template/spec/containers/0/image
        value: "$IMG"
EOF
