package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// collector chooses how early garbage is collected. At its start a manager makes much garbage while it fills its caches,
// and must not spend its time on collecting it; nor while it renders, or when many custom resources change at once. At rest
// its memory is to be that of the caches, little more.
type collector struct {
	// ready returns nil when the caches are filled.
	ready func() error
	// renders holds one value when something has begun to render.
	renders chan struct{}
}

// Values of GOGC while the caches are filled, while something renders or is applied as it was rendered, while there is much
// to do, while there is and the caches are large, and at rest.
const startPercent, renderPercent, busyPercent, fullPercent, restPercent = 200, 200, 100, 35, 25

const (
	// busyBytes is how much is allocated in a second by a manager that has much to do.
	busyBytes = 4 << 20
	// fullBytes is how much lives in a manager with large caches. What they gain then lies scattered among the garbage of that
	// time, and the pages stay in use when it is gone: the less garbage there is at a time, the fewer pages.
	fullBytes = 24 << 20
	// calmSeconds is for how long it must have had little to do to be at rest.
	calmSeconds = 15
)

func newCollector() collector { return collector{renders: make(chan struct{}, 1)} }

// rendering tells that something begins to render; at rest most of that would be over before it is seen by what is allocated.
func (c collector) rendering() {
	select {
	case c.renders <- struct{}{}:
	default:
	}
}

// NeedLeaderElection says that a standby saves memory too.
func (collector) NeedLeaderElection() bool { return false }

// Start chooses until the context is done. Who sets GOGC has chosen already.
func (c collector) Start(ctx context.Context) error {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	debug.SetGCPercent(startPercent)
	w, percent := work{}, startPercent
	before, _ := heap()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		var live uint64
		select {
		case <-ctx.Done():
			return nil
		case <-c.renders:
			w.rendering = calmSeconds
		case <-ticker.C:
			now, alive := heap()
			w, before, live = w.after(now-before), now, alive
		}
		wanted := w.choose(c.ready() == nil, percent, live)
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

// work is for how many seconds more a manager counts as busy, and as rendering.
type work struct{ busy, rendering int }

// after is what is left when a second is over, in which so much was allocated.
func (w work) after(bytes uint64) work {
	w.busy, w.rendering = max(0, w.busy-1), max(0, w.rendering-1)
	if bytes >= busyBytes {
		w.busy = calmSeconds
	}
	return w
}

// choose returns the percentage; at the start it stays until the caches are filled.
func (w work) choose(ready bool, percent int, live uint64) int {
	switch {
	case !ready && percent == startPercent:
		return startPercent
	case w.rendering > 0:
		return renderPercent
	case w.busy > 0 && live >= fullBytes:
		return fullPercent
	case w.busy > 0:
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
