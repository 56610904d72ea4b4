package backoff

import "time"

// Bound says how often something may be written again although nothing has changed that it follows from, since somebody takes it back each
// time: Free times within a Window without a pause, and then with pauses that grow.
type Bound struct {
	Free   int
	Window time.Duration
	Pauses Policy
}

// TakenBack is the bound of what MLKeeper repairs: what somebody changes or deletes now and then is repaired at once.
var TakenBack = Bound{Free: 4, Window: 10 * time.Minute, Pauses: Unwatched}

// Repetition is how often something was written again lately. The zero value has not been.
type Repetition struct {
	times int
	last  time.Time
	retry Retry
}

// Again takes in that it was written once more.
func (r *Repetition) Again(b Bound, now time.Time) {
	if r.Over(b, now) {
		*r = Repetition{}
	}
	r.times, r.last = r.times+1, now
	if r.times > b.Free {
		r.retry.Failed(b.Pauses, "", now)
	}
}

// Due is when it may be written again; the zero time while no pause was needed.
func (r *Repetition) Due() time.Time { return r.retry.Due() }

// Waits says that it may not be written again yet.
func (r *Repetition) Waits(now time.Time) bool { return r.retry.Waits(now) }

// Paused says that there has been a pause.
func (r *Repetition) Paused() bool { return r.retry.Failures() > 0 }

// Last is when it was written again last.
func (r *Repetition) Last() time.Time { return r.last }

// Over says that it was left alone for the window, and for as long as the last pause after that was over.
func (r *Repetition) Over(b Bound, now time.Time) bool {
	return now.Sub(r.last) > max(b.Window, 2*r.retry.pause)
}
