#!/usr/bin/env bash
# Test the operator as a pod on a real node. Where the machine does not allow one nothing is tested, and the script says NOT RUN
# with the reason; REQUIRE_NODE=1 makes that an error. docs/real-node.md says what a node needs. Only the machine is asked here:
# what bin/devcluster fails at is a failure. With ARGS, such as -run, only the operator is tested, with these flags.
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

# The tests need an image, whatever paths it names: what make build compiled is linked once more.
make --no-print-directory image IMAGE_FLAGS=

read -r -a args <<<"${ARGS-}"
((${#args[@]})) || go -C devcluster test -tags realnode -count=1 -timeout 20m -v -run RealNode .
go test -tags realnode -count=1 -timeout 20m -v "${args[@]}" ./test/node
