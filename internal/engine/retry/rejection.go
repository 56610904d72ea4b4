package retry

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
)

// rejection is a write that the API server rejected. Where no watch reports the end of the cause (quota, admission, rights, a name that
// is taken), it is tried again when its pause is over, whatever is rendered meanwhile. Where only another input helps, it is tried when
// something else is rendered, and after the pause when an event comes. Both are tried at once when the user changed or asked for
// something, the schema of the kind changed, or the object is another one. The pauses grow for as long as the same object is rejected for the same reason: content that
// differs in every reconcile does not reset them.
type rejection struct {
	retry backoff.Retry
	// digest and request are those of the rejected write, uid that of the object that it was for.
	digest  string
	request Request
	uid     types.UID
	problem plan.Problem
}

// holdRejections turns writes whose pause is not over into waits, and returns their problems. It forgets what is no longer to be written.
func (s *State) holdRejections(actions []decide.Action, request func(plan.Key) Request, now time.Time) (problems []plan.Problem) {
	kept := map[plan.Key]rejection{}
	for i := range actions {
		a := &actions[i]
		r, ok := s.rejections[a.Key]
		if !ok || !a.Writes() || r.request != request(a.Key) || r.uid != a.UID {
			continue
		}
		kept[a.Key] = r
		if !r.retry.Waits(now) || r.problem.Class != plan.Blocked && r.digest != a.Object.Digest {
			continue
		}
		a.Verb, a.Reason, a.Detail = decide.Wait, r.problem.Reason, a.Key.String()+" to be accepted"
		problems = append(problems, r.problem)
	}
	s.rejections = kept
	return problems
}

// recordRejection takes in whether a write was rejected.
func (s *State) recordRejection(r act.Result, request Request, now time.Time) {
	if r.Problem == nil {
		delete(s.rejections, r.Action.Key)
		return
	}
	if s.rejections == nil {
		s.rejections = map[plan.Key]rejection{}
	}
	retry := s.rejections[r.Action.Key].retry
	retry.Failed(backoff.Unwatched, r.Problem.Reason, now)
	s.rejections[r.Action.Key] = rejection{
		retry: retry, digest: r.Action.Object.Digest, request: request, uid: r.Action.UID, problem: *r.Problem,
	}
}
