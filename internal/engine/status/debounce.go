package status

import (
	"sync"
	"time"
)

const (
	// minProgress and maxProgress bound how long a progress waits to be reported. It waits a second for each custom resource that
	// progresses with it, so that all of them together report about once a second: their statuses must not take the API server's time
	// from their objects. On a cluster that needs minutes for a thousand Deployments, half a minute would cost each of them one more.
	minProgress, maxProgress = 2 * time.Second, 2 * time.Minute
	// window is how long the number of those that progress is remembered, once or twice.
	window = 30 * time.Second
	// settled is how long a change of a custom resource waits that does not progress.
	settled = 100 * time.Millisecond
)

// Debounce says how long a change that alters no verdict waits, by how many custom resources progress at once. It remembers how many
// there were lately: the last of a thousand that came together must not report more often because most are done. The zero value is
// ready to use.
type Debounce struct {
	mu  sync.Mutex
	now int
	// since is when the current window began; peak and before are the most there were in it and in the one before.
	since        time.Time
	peak, before int
}

// Count counts one more custom resource that progresses, or one less.
func (d *Debounce) Count(more bool, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rotate(at)
	if more {
		d.now++
	} else {
		d.now--
	}
	d.peak = max(d.peak, d.now)
}

// Delay is how long a change waits that alters no verdict of a custom resource, which progresses or does not.
func (d *Debounce) Delay(progresses bool, at time.Time) time.Duration {
	if !progresses {
		return settled
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rotate(at)
	return min(max(time.Second*time.Duration(max(d.peak, d.before)), minProgress), maxProgress)
}

// rotate begins a new window when the current one is over.
func (d *Debounce) rotate(at time.Time) {
	passed := at.Sub(d.since)
	if passed < window {
		return
	}
	d.before = d.peak
	if passed >= 2*window {
		d.before = d.now
	}
	d.since, d.peak = at, d.now
}
