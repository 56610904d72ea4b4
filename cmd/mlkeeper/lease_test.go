package main

import (
	"context"
	"testing"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// countedLock counts how often the lease was asked for.
type countedLock struct {
	resourcelock.Interface
	gets int
}

func (l *countedLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.gets++
	return nil, nil, nil
}

func TestTheLeaseWaitsForTheCaches(t *testing.T) {
	lock, filled := &countedLock{}, make(chan struct{})
	lease := &warmLease{Interface: lock, warm: func(ctx context.Context) bool {
		select {
		case <-filled:
			return true
		case <-ctx.Done():
			return false
		}
	}}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, _, err := lease.Get(stopped); err == nil || lock.gets != 0 {
		t.Fatalf("stopped before it was warm: %d requests, error %v; want none and an error", lock.gets, err)
	}
	close(filled)
	if _, _, err := lease.Get(t.Context()); err != nil || lock.gets != 1 {
		t.Fatalf("with filled caches: %d requests, error %v; want one and no error", lock.gets, err)
	}
	lease.warm = func(context.Context) bool { return false }
	if _, _, err := lease.Get(t.Context()); err != nil || lock.gets != 2 {
		t.Errorf("a renewal while another watch begins: %d requests in all, error %v; want two and no error", lock.gets, err)
	}
}

// TestShardsNeedLeases: without them, each manager would reconcile everything.
func TestShardsNeedLeases(t *testing.T) {
	for _, c := range []struct {
		flags         managerFlags
		shared, fails bool
	}{
		{managerFlags{shards: 1}, false, false},
		{managerFlags{shards: 1, leaderElect: true}, true, false},
		{managerFlags{shards: 4, leaderElect: true}, true, false},
		{managerFlags{shards: 4}, false, true},
		{managerFlags{shards: 0, leaderElect: true}, false, true},
	} {
		got, err := newShards(c.flags)
		if (got != nil) != c.shared || (err != nil) != c.fails || got.Count() != max(1, c.flags.shards) && !c.fails {
			t.Errorf("--shards=%d --leader-elect=%t: shards %t, error %v", c.flags.shards, c.flags.leaderElect, got != nil, err)
		}
	}
}
