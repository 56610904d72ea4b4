# shellcheck shell=bash disable=SC2034
# The Go modules of the repository, for scripts to source. make verify fails where one is in no list.

# modules have code of ours: they are vetted, tested and linted.
modules=(. devcluster hack/catalog hack/console hack/docs hack/release hack/monitoring)
# programs have code of ours around originals that one target alone builds: they are linted, which vets them, where these can be fetched.
programs=(hack/servicemonitors hack/tools/cert-manager hack/tools/prometheus-operator)
# tools pin the versions of programs that the Makefile builds.
tools=(hack/tools hack/tools/golangci hack/tools/govulncheck hack/tools/helm)
# originals pin what some tests run in place of a stand-in.
originals=(hack/servicemonitors hack/tools/cert-manager hack/tools/prometheus-operator hack/tools/rbac-proxy)

# fetch target module: fetch what the packages of a module import. Where that cannot be done, say NOT RUN and return an error;
# with REQUIRE=1 the script ends.
fetch() {
  local why
  if ! why=$(go -C "$2" list -deps -test ./... 2>&1 >/dev/null); then
    printf '%s: %s: NOT RUN, since it imports what cannot be fetched:\n%s\n' "$1" "$2" "$(tail -n 3 <<<"$why")" >&2
    [[ ${REQUIRE-} != 1 ]] || exit 1
    return 1
  fi
}
