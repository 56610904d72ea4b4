package retry

import (
	"time"

	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
)

// An object that another client deletes whenever it exists, such as the token of a ServiceAccount that does not exist, is recreated with
// backoff. One that is deleted now and then is recreated at once.
const (
	// freeRecreations is how often an object is recreated within a window before there is a pause.
	freeRecreations = 4
	// recreationWindow is how long a deletion counts.
	recreationWindow = 10 * time.Minute
)

// ReasonRecreationBackOff is the reason of the problem.
const ReasonRecreationBackOff = "RecreationBackOff"

// recreation is how often an object was recreated lately, and when it is again.
type recreation struct {
	times int
	last  time.Time
	retry backoff.Retry
}

// holdRecreations turns creations whose pause is not over into waits, and returns their problems, and when the first of them is due.
func (s *State) holdRecreations(actions []decide.Action, now time.Time) (problems []plan.Problem, due time.Time) {
	for key, v := range s.recreations {
		if now.Sub(v.last) > recreationWindow {
			delete(s.recreations, key)
		}
	}
	for i := range actions {
		a := &actions[i]
		v, again := s.recreations[a.Key]
		if !again || a.Verb != decide.Create || !v.retry.Waits(now) {
			continue
		}
		a.Verb, a.Reason, a.Detail = decide.Wait, ReasonRecreationBackOff, a.Key.String()+" to be left alone"
		problems = append(problems, plan.Problem{
			Class: plan.Blocked, Reason: ReasonRecreationBackOff, Field: a.Key.Kind, Value: a.Key.Name,
			Message: a.Key.String() + " is deleted by somebody whenever it was made",
			Remedy:  "find out who deletes it, by the audit log, and what that one misses, such as the ServiceAccount of a token",
		})
		due = earlier(due, v.retry.Due())
	}
	return problems, due
}

// recordRecreation counts the creation of an object that existed before.
func (s *State) recordRecreation(r act.Result, now time.Time) {
	if r.Action.Verb != decide.Create || r.Action.KnownUID == "" || !r.Wrote {
		return
	}
	if s.recreations == nil {
		s.recreations = map[plan.Key]recreation{}
	}
	v := s.recreations[r.Action.Key]
	v.times, v.last = v.times+1, now
	if v.times > freeRecreations {
		v.retry.Failed(policy, "", now)
	}
	s.recreations[r.Action.Key] = v
}
