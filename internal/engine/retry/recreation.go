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
	// recreationProof is how long an object must exist before it counts as kept: otherwise the custom resource would be Ready
	// for a moment after each creation.
	recreationProof = 10 * time.Second
)

// ReasonRecreationBackOff is the reason of the problem.
const ReasonRecreationBackOff = "RecreationBackOff"

// recreation is how often an object was recreated lately, and when it is again.
type recreation struct {
	times int
	last  time.Time
	retry backoff.Retry
}

// unproven is until when an object that was recreated after a pause may be deleted again; zero when there was no pause.
func (v recreation) unproven() time.Time {
	if v.retry.Failures() == 0 {
		return time.Time{}
	}
	return v.last.Add(recreationProof)
}

// holdRecreations turns creations whose pause is not over into waits. It returns their problems, and those of objects that exist and may
// be deleted again, with the time of the first change.
func (s *State) holdRecreations(actions []decide.Action, now time.Time) (problems []plan.Problem, due time.Time) {
	for key, v := range s.recreations {
		if now.Sub(v.last) > recreationWindow {
			delete(s.recreations, key)
		}
	}
	for i := range actions {
		a := &actions[i]
		v, again := s.recreations[a.Key]
		switch {
		case !again:
		case a.Verb == decide.Create && v.retry.Waits(now):
			a.Verb, a.Reason, a.Detail = decide.Wait, ReasonRecreationBackOff, a.Key.String()+" to be left alone"
			problems, due = append(problems, deletedAgain(a.Key)), earlier(due, v.retry.Due())
		case a.Verb != decide.Create && now.Before(v.unproven()):
			problems, due = append(problems, deletedAgain(a.Key)), earlier(due, v.unproven())
		}
	}
	return problems, due
}

// deletedAgain is the problem of an object that is deleted whenever it was created.
func deletedAgain(key plan.Key) plan.Problem {
	return plan.Problem{
		Class: plan.Blocked, Reason: ReasonRecreationBackOff, Field: key.Kind, Value: key.Name,
		Message: key.String() + " is deleted by somebody whenever it was made",
		Remedy:  "find out who deletes it, by the audit log, and what that one misses, such as the ServiceAccount of a token",
	}
}

// recordRecreation counts the creation of an object that existed before and that somebody has deleted, which a hook has not that runs for
// another revision. It returns the problem of one that may be deleted again, and until when.
func (s *State) recordRecreation(r act.Result, now time.Time) (problems []plan.Problem, due time.Time) {
	if r.Action.Verb != decide.Create || r.Action.KnownUID == "" || r.Action.Reason == decide.ReasonChanged || !r.Wrote {
		return nil, time.Time{}
	}
	if s.recreations == nil {
		s.recreations = map[plan.Key]recreation{}
	}
	v := s.recreations[r.Action.Key]
	v.times, v.last = v.times+1, now
	if v.times > freeRecreations {
		v.retry.Failed(policy, "", now)
		problems, due = []plan.Problem{deletedAgain(r.Action.Key)}, v.unproven()
	}
	s.recreations[r.Action.Key] = v
	return problems, due
}
