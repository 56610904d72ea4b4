package engine

import (
	"sync"
	"time"
)

// crowd is for how long a crowd is remembered that has thinned out since.
const crowd = maxPatience

// underway counts the custom resources that are on their way, and remembers how many there were lately: the last of a
// thousand that came together must not begin to chat because most have arrived.
type underway struct {
	mu  sync.Mutex
	now int
	// since is when the current window began; peak and before are the most there were in it and in the one before.
	since        time.Time
	peak, before int
}

// add counts one more, or one less.
func (u *underway) add(more bool, at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.turn(at)
	if more {
		u.now++
	} else {
		u.now--
	}
	u.peak = max(u.peak, u.now)
}

// most is the largest number of the last one or two windows.
func (u *underway) most(at time.Time) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.turn(at)
	return max(u.peak, u.before)
}

// turn begins a new window when the current one is over.
func (u *underway) turn(at time.Time) {
	passed := at.Sub(u.since)
	if passed < crowd {
		return
	}
	u.before = u.peak
	if passed >= 2*crowd {
		u.before = u.now
	}
	u.since, u.peak = at, u.now
}
