#!/usr/bin/env bash
# Test the operator as a pod on a real node. Where the machine does not allow one nothing is tested, and the script says NOT RUN
# with the reason; REQUIRE_NODE=1 makes that an error. docs/real-node.md says what a node needs. Only the machine is asked here:
# what bin/devcluster fails at is a failure. With ARGS, such as -run, only the operator is tested, with these flags. With the argument install a
# release of this commit is tested in its place, as an upgrade of the last tag, of the commit PREVIOUS, or, while there is no tag, of the
# same commit under another version.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin

not_run() {
  echo "test-node: NOT RUN, since $1" >&2
  [[ ${REQUIRE_NODE-} != 1 ]] || exit 1
  exit 0
}

[[ $(uname -s) == Linux ]] || not_run "a node needs Linux"
((EUID == 0)) || not_run "a node makes namespaces and mounts, which only root may: run this as root"

# As devcluster/internal/enclosure/require.go has them.
missing=()
for program in containerd containerd-shim-runc-v2 ctr runc iptables iptables-save iptables-restore mount umount unshare; do
  command -v "$program" >/dev/null || missing+=("$program")
done
[[ -x /usr/lib/cni/bridge || -x /opt/cni/bin/bridge || -x /usr/libexec/cni/bridge ]] || missing+=("the CNI plugins")
((${#missing[@]} == 0)) || not_run "the machine lacks ${missing[*]}; on Debian or Ubuntu: apt-get install -y --no-install-recommends containerd runc containernetworking-plugins iptables"

why=$(unshare --mount --pid --net --fork true 2>&1) || not_run "the machine makes no namespaces: $why"
why=$(unshare --net iptables -t nat -A POSTROUTING -m comment --comment probe -j MASQUERADE 2>&1) ||
  not_run "iptables has no effect in a network namespace: $why"
roots=$(awk '{for (i = 7; i < NF; i++) if ($i == "-" && ($(i + 1) == "cgroup" || $(i + 1) == "cgroup2")) print $5}' /proc/self/mountinfo)
[[ -n $roots ]] || not_run "no control groups are mounted"
while read -r root; do
  why=$(mkdir "$root/mlkeeper-probe-$$" 2>&1 && rmdir "$root/mlkeeper-probe-$$" 2>&1) || not_run "a control group cannot be made: $why"
done <<<"$roots"

read -r -a args <<<"${ARGS-}"
if [[ ${1-} == install ]]; then
  previous=${PREVIOUS:-$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || echo HEAD)} version=v0.0.0-previous
  [[ $previous != v[0-9]* ]] || version=$previous
  git worktree remove --force bin/previous 2>/dev/null || true
  git worktree add --force --detach bin/previous "$previous"
  trap 'git worktree remove --force bin/previous' EXIT
  PLATFORMS=linux/$(go env GOARCH)
  export PLATFORMS
  make --no-print-directory -C bin/previous release VERSION="$version" IMAGE=registry.example.com/mlkeeper
  make --no-print-directory release VERSION=v0.0.0-test IMAGE=registry.example.com/mlkeeper
  ((${#args[@]})) || args=(-run '^TestInstallMethods$')
  MLKEEPER_PREVIOUS=$PWD/bin/previous/bin/release/$version MLKEEPER_RELEASE=$PWD/bin/release/v0.0.0-test \
    go test -tags realnode,realinstall -count=1 -timeout 40m -v "${args[@]}" ./test/node
  exit 0
fi

# The tests need an image, whatever paths it names: what make build compiled is linked once more.
make --no-print-directory image IMAGE_FLAGS=

((${#args[@]})) || go -C devcluster test -tags realnode -count=1 -timeout 20m -v -run RealNode .
go test -tags realnode -count=1 -timeout 20m -v "${args[@]}" ./test/node
