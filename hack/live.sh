# shellcheck shell=bash disable=SC2034,SC2154
# What stands in a cluster under the names of MLKeeper's definitions, for scripts to source. The array kubectl is the command that they run.

# name_of file: the name of the definition in a file of config/crd. A file is named GROUP_PLURAL.yaml, its definition PLURAL.GROUP.
name_of() {
  local name=${1##*/}
  name=${name%.yaml}
  printf '%s\n' "${name#*_}.${name%%_*}"
}

# A definition is another operator's without MLKeeper's label, or with a webhook that converts its versions: live tells both, after its name.
live='{.metadata.name}|{.metadata.labels.app\.kubernetes\.io/part-of}|{.spec.conversion.strategy}'

# foreign owner strategy: whether a definition of this label and this conversion is another operator's.
foreign() {
  [[ $1 != mlkeeper || $2 == Webhook ]]
}

# finalizers definition…: the commands that remove the finalizers of custom resources of these definitions, but for those of the garbage
# collector, which it removes itself. MLKeeper has none: they are an original operator's, which MLKeeper's manager takes off, or a third party's.
finalizers() {
  local definition found namespace name held
  for definition in "$@"; do
    if ! found=$("${kubectl[@]}" get "$definition" --all-namespaces \
      -o 'jsonpath={range .items[*]}{.metadata.namespace}|{.metadata.name}|{.metadata.finalizers[*]}{"\n"}{end}'); then
      echo "  The custom resources of $definition could not be listed."
      continue
    fi
    while IFS='|' read -r namespace name held; do
      held=" $held " held=${held/ foregroundDeletion / } held=${held/ orphan / }
      [[ $held == *[![:space:]]* ]] || continue
      echo "  kubectl ${namespace:+-n $namespace }patch $definition $name --type=merge -p '{\"metadata\":{\"finalizers\":null}}' #$held"
    done <<<"$found"
  done
}
