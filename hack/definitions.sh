#!/usr/bin/env bash
# Put the CustomResourceDefinitions that controller-gen has written to a folder in their places in config/crd, which has a folder for the
# engine and one for each controller, and delete those that are not generated any more.
# Usage: definitions.sh folder
set -euo pipefail
cd "$(dirname "$0")/.."

for old in config/crd/*/*_*.yaml; do
  file=$1/${old##*/}
  if [[ -e $file ]]; then
    mv "$file" "$old"
  else
    rm "$old"
  fi
done
shopt -s nullglob
for file in "$1"/*.yaml; do
  echo "definitions: ${file##*/} has no place yet: make an empty file of this name in the folder of its controller in config/crd" >&2
  exit 1
done
rmdir "$1"
