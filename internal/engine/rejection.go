package engine

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
)

// rejection is a write that was refused. Where no watch tells the end of the cause (quota, admission, rights, a name that
// is taken) it is tried again when its pause is over (invariant 15), whatever is rendered meanwhile; where only a change of the
// input helps, at once when something else is rendered, and after the pause when an event comes. Neither is tried whenever
// something happens to enqueue the custom resource, but at once when the user changed or asked for something, or the object is
// another. The pauses grow for as long as the same object is refused for the same reason: content that is another in every
// pass must not begin anew.
type rejection struct {
	retry backoff.Retry
	// digest, asked and uid are what was wanted, and of which object, when it was refused.
	digest, asked string
	uid           types.UID
	problem       plan.Problem
}

// userRequest changes whenever the user asks for something anew.
func (p *reconciliation[C, F]) userRequest() string {
	notes := p.cr.GetAnnotations()
	return fmt.Sprint(p.cr.GetGeneration(), notes[keeper.ReconcileAtAnnotation], notes[keeper.AdoptAnnotation])
}

// holdRejected turns writes whose pause is not over into waits, and tells their problem again.
func (s *stacks[C, F]) holdRejected(p *reconciliation[C, F]) {
	now, kept := s.Clock.Now(), map[plan.Key]rejection{}
	for i := range p.actions {
		a := &p.actions[i]
		r, ok := p.state.rejected[a.Key]
		if !ok || !a.Writes() || r.asked != p.userRequest() || r.uid != a.UID {
			continue
		}
		kept[a.Key] = r
		if r.retry.Waits(now) && (r.problem.Class == plan.Blocked || r.digest == a.Object.Digest) {
			a.Verb, a.Reason, a.Detail = decide.Wait, r.problem.Reason, a.Key.String()+" to be accepted"
			p.problems = append(p.problems, r.problem)
		}
	}
	p.state.rejected = kept
}

// recordRejection keeps what became of a write.
func (s *stacks[C, F]) recordRejection(p *reconciliation[C, F], r act.Result) {
	if r.Problem == nil {
		delete(p.state.rejected, r.Action.Key)
		return
	}
	retry := p.state.rejected[r.Action.Key].retry
	retry.Failed(blockedRetry, r.Problem.Reason, s.Clock.Now())
	p.state.rejected[r.Action.Key] = rejection{
		retry: retry, digest: r.Action.Object.Digest, asked: p.userRequest(), uid: r.Action.UID, problem: *r.Problem,
	}
}

// retryAt is when the next refused write is tried again; zero when there is none.
func (l *reconcileState) retryAt() time.Time {
	var next time.Time
	for _, r := range l.rejected {
		if r.problem.Class != plan.Blocked {
			continue
		}
		if due := r.retry.Due(); next.IsZero() || due.Before(next) {
			next = due
		}
	}
	return next
}
