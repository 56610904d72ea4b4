package shard

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// LeaderLease is the lease of the leader, which holds shard 0. It is the only lease of shards that this package does not write.
	LeaderLease = "mlkeeper" + leaseEnd

	leaseEnd = ".keeper.mlkeeper.dev"
	// turnLease is the lease of the manager whose turn it is.
	turnLease = "mlkeeper-turn" + leaseEnd
	// shardLease and memberLease begin the names of the leases of the other shards, and of the managers.
	shardLease  = "mlkeeper-shard-"
	memberLease = "mlkeeper-manager-"
	// countAnnotation has the number of shards on the lease of a manager.
	countAnnotation = "keeper.mlkeeper.dev/shards"
)

// IsMemberLease says that a lease, by its name, tells only that a manager is alive.
func IsMemberLease(name string) bool {
	return strings.HasPrefix(name, memberLease) && strings.HasSuffix(name, leaseEnd)
}

// nameOf is the name of the lease of a shard.
func nameOf(shard int) string {
	if shard == 0 {
		return LeaderLease
	}
	return shardLease + strconv.Itoa(shard) + leaseEnd
}

// shardOf is the shard of a lease; false for other leases.
func shardOf(name string) (int, bool) {
	if name == LeaderLease {
		return 0, true
	}
	number, isShard := strings.CutPrefix(name, shardLease)
	number, ends := strings.CutSuffix(number, leaseEnd)
	shard, err := strconv.Atoi(number)
	return shard, isShard && ends && err == nil
}

// memberNameOf is the name of the lease of a manager, by the part of its identity that no other manager has.
func memberNameOf(identity string) string {
	return memberLease + strings.ToLower(identity[strings.LastIndex(identity, "_")+1:]) + leaseEnd
}

// sighting is since when a lease is as it is, by the clock of this manager: the clocks of others do not count.
type sighting struct {
	version string
	at      time.Time
}

// leases are all leases as they were listed, by name, with what this manager wrote since.
type leases map[string]*coordinationv1.Lease

// holder is who holds a lease; empty for nobody.
func (l leases) holder(name string) string {
	if lease, ok := l[name]; ok {
		return ptr.Deref(lease.Spec.HolderIdentity, "")
	}
	return ""
}

// observe takes in the leases as they are now.
func (m *Member) observe(listed *coordinationv1.LeaseList, now time.Time) leases {
	out, seen := leases{}, map[string]sighting{}
	for i := range listed.Items {
		lease := &listed.Items[i]
		if _, isShard := shardOf(lease.Name); !isShard && lease.Name != turnLease && !IsMemberLease(lease.Name) {
			continue
		}
		out[lease.Name] = lease
		seen[lease.Name] = sighting{lease.ResourceVersion, now}
		if before, ok := m.seen[lease.Name]; ok && before.version == lease.ResourceVersion {
			seen[lease.Name] = before
		}
	}
	m.seen = seen
	return out
}

// live says that a lease has a holder who may act on it. A lease expires when this manager has not seen it change for its duration.
func (m *Member) live(all leases, name string, now time.Time) bool {
	if all.holder(name) == "" {
		return false
	}
	duration := time.Duration(ptr.Deref(all[name].Spec.LeaseDurationSeconds, 0)) * time.Second
	return now.Before(m.seen[name].at.Add(duration))
}

// members are the managers that are alive, by identity, and the number of shards that each of them knows.
func (m *Member) members(all leases, now time.Time) map[string]string {
	out := map[string]string{}
	for name, lease := range all {
		if IsMemberLease(name) && m.live(all, name, now) {
			out[all.holder(name)] = lease.Annotations[countAnnotation]
		}
	}
	return out
}

// obstacle is why this manager may not join yet: a manager is alive that divides the namespaces in another way, and would reconcile some of
// those that this one does. A holder that is no member is one of a release without shards, one that is about to end, or the leader of an
// only shard. Who waits for an only shard may join beside any leader, whose lease it does not get before.
func (m *Member) obstacle(all leases, now time.Time) string {
	members := m.members(all, now)
	// In one order, so that the same one of several is told each time.
	for _, identity := range slices.Sorted(maps.Keys(members)) {
		count := members[identity]
		if count != strconv.Itoa(m.Shards.count) {
			return fmt.Sprintf("the manager %s runs with --shards=%s", identity, count)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		_, isShard := shardOf(name)
		if m.Shards.count == 1 && name == LeaderLease {
			continue
		}
		if _, known := members[all.holder(name)]; isShard && !known && m.live(all, name, now) {
			return fmt.Sprintf("the manager %s holds the lease %s, and does not share the shards", all.holder(name), name)
		}
	}
	return ""
}

// held writes into the spec of a lease that this manager holds it from now on, or still does.
func (m *Member) held(spec *coordinationv1.LeaseSpec, now time.Time) {
	if ptr.Deref(spec.HolderIdentity, "") != m.Identity {
		spec.AcquireTime = ptr.To(metav1.NewMicroTime(now))
		spec.LeaseTransitions = ptr.To(ptr.Deref(spec.LeaseTransitions, 0) + 1)
	}
	spec.HolderIdentity = ptr.To(m.Identity)
	spec.LeaseDurationSeconds = ptr.To(int32(m.LeaseDuration / time.Second)) //nolint:gosec // A lease lasts seconds.
	spec.RenewTime = ptr.To(metav1.NewMicroTime(now))
}
