// Package backoff says when what failed is tried again. It owns how pauses grow; it never waits, wakes or writes: the
// caller brings the time and keeps the state.
package backoff

import (
	"math/rand/v2"
	"time"
)

// jitter is the part of a pause that is added to it at most, so that what failed together is not tried again together.
const jitter = 4

// Longest is the longest pause, before what is added at random, between two looks at what cannot be watched (invariant 15).
const Longest = 5 * time.Minute

// Policy says how the pauses grow: from First, each twice as long as the one before, up to Longest. Up to a quarter of a pause
// is added to it at random.
type Policy struct{ First, Longest time.Duration }

// Unwatched is the policy of what no watch reports, where nothing says otherwise.
var Unwatched = Policy{First: time.Second, Longest: Longest}

// Retry is the state of one thing that is tried again. The zero value has not failed.
type Retry struct {
	cause    string
	failures int
	pause    time.Duration // The last one, without what was added at random.
	due      time.Time
}

// Failed takes in a failure and returns when the next attempt is due. The pauses grow with the time that the failure lasts and
// not with how often it is met: events may bring about dozens of attempts within a second, and all that come before the next
// one is due count as one. A failure for another cause begins anew.
func (r *Retry) Failed(p Policy, cause string, now time.Time) time.Time {
	if r.cause != cause {
		*r = Retry{cause: cause}
	}
	if r.failures > 0 && now.Before(r.due) {
		return r.due
	}
	r.failures++
	r.pause = min(max(2*r.pause, p.First), p.Longest)
	r.due = now.Add(r.pause + rand.N(r.pause/jitter+1))
	return r.due
}

// Failures is how many pauses there were since the last success.
func (r *Retry) Failures() int { return r.failures }

// Due is when the next attempt is due; the zero time before the first failure.
func (r *Retry) Due() time.Time { return r.due }

// Waits says that the next attempt is not due yet.
func (r *Retry) Waits(now time.Time) bool { return now.Before(r.due) }
