// Package retry keeps, for one custom resource, when that is tried again of which no watch reports that it would succeed: writes that
// the API server rejected, objects that another client deletes, and other conditions that block it (invariant 15). It turns writes that are
// not due into waits; it never enqueues or writes.
package retry

import (
	"time"

	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
)

// Request is what has a rejected write tried at once when it changes.
type Request struct {
	// User changes whenever the user asks for something else.
	User string
	// Schema is the generation of the CustomResourceDefinition of the object; 0 for a kind that has none.
	Schema int64
}

// State is what is to be tried again for one custom resource. The zero value is nothing.
type State struct {
	rejections  map[plan.Key]rejection
	repetitions map[plan.Key]repetition
	blocked     backoff.Retry
}

// Hold turns the writes that are not due into waits. It returns their problems, and when the first repair that waits is due; the zero time for
// none. request returns that for an object; what was rejected or is taken back is tried at once when it changes.
func (s *State) Hold(actions []decide.Action, request func(plan.Key) Request, now time.Time) (problems []plan.Problem, due time.Time) {
	problems = s.holdRejections(actions, request, now)
	others, due := s.holdRepetitions(actions, request, now)
	return append(problems, others...), due
}

// Record takes in the result of a write. It returns the problem of an object that may be changed again, and until when that stands.
func (s *State) Record(r act.Result, request Request, now time.Time) (problems []plan.Problem, due time.Time) {
	s.recordRejection(r, request, now)
	return s.recordRepetition(r, request, now)
}

// SetBlocked takes in whether something other than a write is blocked.
func (s *State) SetBlocked(blocked bool, request string, now time.Time) {
	if blocked {
		s.blocked.Failed(backoff.Unwatched, request, now)
	} else {
		s.blocked = backoff.Retry{}
	}
}

// Due is when the first rejected write is tried again, or what is blocked, at the end of a reconcile that began at a time; the zero time if there
// is none. A write that only another input can mend is not tried again by itself, unless the schema of its kind can change: an API server may
// serve a new schema later than a watch reports it. What was due before the reconcile began and was not tried is held by something else, such as
// the slot of rollouts, which enqueues the custom resource when it ends. What became due since then is due now: a reconcile may last longer than
// a pause.
func (s *State) Due(began time.Time) time.Time {
	next := s.blocked.Due()
	for _, r := range s.rejections {
		if r.retry.Waits(began) && (r.problem.Class == plan.Blocked || r.request.Schema > 0) {
			next = earlier(next, r.retry.Due())
		}
	}
	return next
}

// earlier returns the earlier of two times, where the zero time means none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
