package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// collector chooses how early garbage is collected. At its start a manager makes much garbage while it fills its caches,
// and must not spend its time on collecting it; nor when many custom resources change at once. At rest its memory is to be
// that of the caches, little more.
type collector struct {
	// ready returns nil when the caches are filled.
	ready func() error
}

// Values of GOGC while the caches are filled, while there is much to do, while there is and the caches are large, and at rest.
const startPercent, busyPercent, fullPercent, restPercent = 200, 100, 35, 25

const (
	// busyBytes is how much is allocated in a second by a manager that has much to do.
	busyBytes = 4 << 20
	// fullBytes is how much lives in a manager with large caches. What they gain then lies scattered among the garbage of that
	// time, and the pages stay in use when it is gone: the less garbage there is at a time, the fewer pages.
	fullBytes = 24 << 20
	// calm is how long it must have had little to do to be at rest.
	calm = 15 * time.Second
)

// NeedLeaderElection says that a standby saves memory too.
func (collector) NeedLeaderElection() bool { return false }

// Start chooses until the context is done. Who sets GOGC has chosen already.
func (c collector) Start(ctx context.Context) error {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	debug.SetGCPercent(startPercent)
	percent, busy := startPercent, 0
	before, _ := heap()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now, live := heap()
		busy = decay(busy, now-before)
		before = now
		wanted := choose(c.ready() == nil, busy, percent, live)
		if wanted == percent {
			continue
		}
		percent = wanted
		debug.SetGCPercent(percent)
		if percent == restPercent {
			// Nothing else would collect what the work has left behind, since a manager at rest allocates nothing.
			debug.FreeOSMemory()
		}
	}
}

// decay returns for how many seconds more a manager counts as busy that allocated so much in the last one.
func decay(busy int, bytes uint64) int {
	if bytes >= busyBytes {
		return int(calm / time.Second)
	}
	return max(0, busy-1)
}

// choose returns the percentage; at the start it stays until the caches are filled.
func choose(ready bool, busy, percent int, live uint64) int {
	switch {
	case !ready && percent == startPercent:
		return startPercent
	case busy > 0 && live >= fullBytes:
		return fullPercent
	case busy > 0:
		return busyPercent
	}
	return restPercent
}

// heap is how many bytes were allocated since the start of the process, and how many were alive at the last collection.
func heap() (allocated, live uint64) {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64(), sample[1].Value.Uint64()
}
