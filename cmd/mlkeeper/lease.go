package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	managerlease "sigs.k8s.io/controller-runtime/pkg/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"mlkeeper.dev/internal/engine/shard"
)

// newShards makes the shards of a manager that has a lease; nil for one that has everything without one.
func newShards(f managerFlags) (*shard.Shards, error) {
	switch {
	case f.shards < 1:
		return nil, fmt.Errorf("--shards=%d: there is at least one", f.shards)
	case f.leaderElect:
		return shard.New(f.shards), nil
	case f.shards > 1:
		return nil, fmt.Errorf("--shards=%d: managers share the shards by leases: add --leader-elect", f.shards)
	}
	return nil, nil
}

// checkLeases refuses durations with which managers would lose their leases, as client-go does (leaderelection.go, NewLeaderElector).
func checkLeases(f managerFlags) error {
	switch {
	case !f.leaderElect:
		return nil
	case f.leaseDuration <= f.renewDeadline:
		return fmt.Errorf("--leader-elect-lease-duration %s: use more than --leader-elect-renew-deadline, which is %s", f.leaseDuration, f.renewDeadline)
	case f.renewDeadline <= time.Duration(leaderelection.JitterFactor*float64(f.retryPeriod)):
		return fmt.Errorf("--leader-elect-renew-deadline %s: use more than %g times --leader-elect-retry-period, which is %s",
			f.renewDeadline, leaderelection.JitterFactor, f.retryPeriod)
	}
	return nil
}

// warmLease is the lease of the leader, which a manager asks for only once it shares the shards, and its caches are filled. Without that a
// manager that has just started could win it from one that stands by, warm, and nothing would be kept while it fills its caches.
type warmLease struct {
	resourcelock.Interface
	// warm waits until then, or for as long as a cache that does not fill may hold the others up. It is false when the context is
	// done.
	warm func(context.Context) bool
	// was is set once the caches were filled. A watch that begins later must not hold up a renewal.
	was atomic.Bool
}

// open makes the lease, and has the manager share the shards. It comes after the manager, which records the events of the lease, and before
// the manager starts.
func (l *warmLease) open(cfg *rest.Config, mgr manager.Manager, f managerFlags, namespace string, shards *shard.Shards,
	warm func(context.Context) bool,
) error {
	if shards == nil {
		return nil
	}
	lock, err := managerlease.NewResourceLock(cfg, mgr, managerlease.Options{
		LeaderElection: true, LeaderElectionID: shard.LeaderLease, LeaderElectionNamespace: namespace, RenewDeadline: f.renewDeadline,
	})
	if err != nil {
		return err
	}
	// As for the leader's lease: one request that hangs must not cost the leases.
	limited := rest.CopyConfig(cfg)
	limited.Timeout = max(f.renewDeadline/2, time.Second)
	leases, err := coordinationclient.NewForConfig(limited)
	if err != nil {
		return fmt.Errorf("make the client of the leases: %w", err)
	}
	member := shard.NewMember(shard.Options{
		Shards: shards, Leases: leases.Leases(namespace), Identity: lock.Identity(),
		LeaseDuration: f.leaseDuration, RenewDeadline: f.renewDeadline, RetryPeriod: f.retryPeriod,
		Warm: warm, Elected: mgr.Elected(), Clock: clock.RealClock{}, Log: ctrl.Log.WithName("shards"),
	})
	l.Interface, l.warm = lock, member.AwaitJoined
	return mgr.Add(member)
}

// Get is what an election begins with, and each renewal and the release of a lease that is held.
func (l *warmLease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if !l.was.Load() {
		if !l.warm(ctx) {
			return nil, nil, errors.New("stopped before the manager shared the shards")
		}
		l.was.Store(true)
	}
	return l.Interface.Get(ctx)
}
