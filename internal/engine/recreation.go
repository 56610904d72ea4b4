package engine

import (
	"time"

	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
)

// An object that somebody deletes whenever it is there, such as the token of a ServiceAccount that does not exist, is not
// made anew at the speed of the two. What is deleted now and then is back at once.
const (
	// freeRecreations is how often an object is made anew within a while before there is a pause.
	freeRecreations = 4
	// recreationWindow is how long a deletion counts.
	recreationWindow = 10 * time.Minute
	// recreationProof is how long an object must exist before it counts as kept: otherwise the custom resource would be Ready
	// for a moment after each creation.
	recreationProof = 10 * time.Second
)

// ReasonRecreationBackOff is the reason of the problem.
const ReasonRecreationBackOff = "RecreationBackOff"

// recreation is how often an object was made anew lately, and when it is again.
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

// holdRecreations turns creations whose pause is not over into waits, and reports why, also while the object is there and may be
// deleted again.
func (s *stacks[C, F]) holdRecreations(p *reconciliation[C, F]) {
	now := s.Clock.Now()
	for key, v := range p.state.recreated {
		if now.Sub(v.last) > recreationWindow {
			delete(p.state.recreated, key)
		}
	}
	for i := range p.actions {
		a := &p.actions[i]
		v, again := p.state.recreated[a.Key]
		switch {
		case !again:
		case a.Verb == decide.Create && v.retry.Waits(now):
			a.Verb, a.Reason, a.Detail = decide.Wait, ReasonRecreationBackOff, a.Key.String()+" to be left alone"
			p.recreationFails(a.Key, v.retry.Due())
		case a.Verb != decide.Create && now.Before(v.unproven()):
			p.recreationFails(a.Key, v.unproven())
		}
	}
}

// recreationFails reports that an object is deleted whenever it was created, until another pass at a time.
func (p *reconciliation[C, F]) recreationFails(key plan.Key, until time.Time) {
	p.problems = append(p.problems, plan.Problem{
		Class: plan.Blocked, Reason: ReasonRecreationBackOff, Field: key.Kind, Value: key.Name,
		Message: key.String() + " is deleted by somebody whenever it was made",
		Remedy:  "find out who deletes it, by the audit log, and what that one misses, such as the ServiceAccount of a token",
	})
	p.requeueAt(until)
}

// countRecreation counts what was there before.
func (s *stacks[C, F]) countRecreation(p *reconciliation[C, F], r act.Result) {
	if r.Action.Verb != decide.Create || r.Action.KnownUID == "" || !r.Wrote {
		return
	}
	if p.state.recreated == nil {
		p.state.recreated = map[plan.Key]recreation{}
	}
	v := p.state.recreated[r.Action.Key]
	v.times, v.last = v.times+1, s.Clock.Now()
	if v.times > freeRecreations {
		v.retry.Failed(blockedRetry, "", v.last)
		p.recreationFails(r.Action.Key, v.unproven())
	}
	p.state.recreated[r.Action.Key] = v
}
