package status

import (
	"time"

	"mlkeeper.dev/internal/engine/controller"
)

// Cause is why a changed status is not written yet.
type Cause int

const (
	// None says that nothing is held: the status is written at once.
	None Cause = iota
	// Debounced says that no verdict changed, and that further changes are likely to follow.
	Debounced
	// CachesIncomplete says that this process does not know everything yet: a watch is being opened, something is being fetched, or a
	// controller has not observed its object.
	CachesIncomplete
	// DependentsPending says that a Ready waits for the wires to acknowledge it, or for the first answer to a background job, so that
	// one write reports both.
	DependentsPending
)

// The limits of a hold. Only the debounce has others, see Debounce.
const (
	// maxReadyHeld is how long a custom resource stays Ready while the caches are incomplete.
	maxReadyHeld = 10 * time.Second
	// maxReasonHeld is how long one that is not Ready keeps its reason meanwhile.
	maxReasonHeld = time.Second
	// maxOpening is how long the opening of one watch without which there is no plan is not reported. Most watches open sooner.
	maxOpening = 5 * time.Second
	// maxAcknowledgement is how long a Ready waits for the wires, and maxAnswer for a first answer.
	maxAcknowledgement, maxAnswer = time.Second, 500 * time.Millisecond
)

// Change is a status that differs from the stored one, with what decides when it is written.
type Change struct {
	Before, After controller.Common
	// Urgent says that the next reconcile acts on what is stored.
	Urgent bool
	// Incomplete says that nothing is wrong, but that not everything is known yet.
	Incomplete bool
	// Unacknowledged says that a wire has not acknowledged a Ready, Unanswered that the first answer to a background job is outstanding.
	Unacknowledged, Unanswered bool
	// Debounce is how long a change waits that alters no verdict.
	Debounce time.Duration
}

// Hold is why a changed status is not written yet, and since when. The zero value holds nothing.
type Hold struct {
	Cause Cause
	Since time.Time
	// Watch names the object whose watch is being opened; empty for another cause.
	Watch string
}

// Next returns the hold of a change, and how long its write still waits; zero means that it is written now.
func (h Hold) Next(c Change, now time.Time) (Hold, time.Duration) {
	cause, limit := c.hold()
	return h.until(cause, limit, now)
}

// Opening returns the hold of a custom resource that waits for a watch that is being opened, and how long that is not reported. It begins
// anew with each watch: of a thousand custom resources that come at once, each waits longer for its next turn than for the watch.
func (h Hold) Opening(watch string, now time.Time) (Hold, time.Duration) {
	if h.Watch != watch {
		h = Hold{}
	}
	h, rest := h.until(CachesIncomplete, maxOpening, now)
	h.Watch = watch
	return h, rest
}

// until begins a hold, or goes on with the one of the same cause, and returns how much of the limit is left.
func (h Hold) until(cause Cause, limit time.Duration, now time.Time) (Hold, time.Duration) {
	switch cause {
	case None:
		return Hold{}, 0
	case h.Cause:
	default:
		h = Hold{Cause: cause, Since: now}
	}
	return h, max(h.Since.Add(limit).Sub(now), 0)
}

// hold says what holds a change, and for how long at most: a verdict is written at once, everything else after the debounce; a Ready
// stays until the caches are complete.
func (c Change) hold() (Cause, time.Duration) {
	switch {
	case c.Urgent:
		return None, 0
	case BecameReady(c.Before, c.After):
		return c.pending()
	case c.Incomplete && isReady(c.Before, *c.After.ObservedGeneration):
		return CachesIncomplete, maxReadyHeld
	case !verdictChanged(c.Before, c.After):
		return Debounced, c.Debounce
	case c.Incomplete && !requested(c.Before, c.After):
		return CachesIncomplete, maxReasonHeld
	}
	return None, 0
}

// pending says how long a Ready waits for those that act on it.
func (c Change) pending() (Cause, time.Duration) {
	switch {
	case c.Unacknowledged:
		return DependentsPending, maxAcknowledgement
	case c.Unanswered:
		return DependentsPending, maxAnswer
	}
	return None, 0
}
