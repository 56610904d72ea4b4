package main

import (
	"context"
	"errors"
	"sync/atomic"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// warmLease is a lease that a manager asks for only once its caches are filled. Without that a manager that has just
// started could win it from one that stands by, warm, and nothing would be kept while it fills its caches.
type warmLease struct {
	resourcelock.Interface
	// warm waits until the caches are filled, or for as long as one that does not fill may hold the others up. It is
	// false when the context is done.
	warm func(context.Context) bool
	// was is set once the caches were filled. A watch that begins later must not hold up a renewal.
	was atomic.Bool
}

// open makes the lease. It comes after the manager, which records the events of it, and before the manager starts.
func (l *warmLease) open(cfg *rest.Config, mgr manager.Manager, f managerFlags, namespace string, warm func(context.Context) bool) error {
	if !f.leaderElect {
		return nil
	}
	lock, err := leaderelection.NewResourceLock(cfg, mgr, leaderelection.Options{
		LeaderElection: true, LeaderElectionID: leaseName(f.shardSelector), LeaderElectionNamespace: namespace,
		RenewDeadline: f.renewDeadline,
	})
	if err != nil {
		return err
	}
	l.Interface, l.warm = lock, warm
	return nil
}

// Get is what an election begins with, and each renewal and the release of a lease that is held.
func (l *warmLease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if !l.was.Load() {
		if !l.warm(ctx) {
			return nil, nil, errors.New("stopped before the caches were filled")
		}
		l.was.Store(true)
	}
	return l.Interface.Get(ctx)
}
