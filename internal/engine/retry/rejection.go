package retry

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
)

// rejection is a write that the API server rejected. Where no watch reports the end of the cause (quota, admission, rights), it is tried again
// when its pause is over, whatever is rendered meanwhile; so is one whose name another owner has, and at once when a watch reports that the name is
// free. Where only another input helps, it is tried when something else is rendered, and after the pause when an event comes. Both are tried at
// once when the user changed or asked for something, the schema of the kind changed, or the object is another one. The pauses grow for as long as
// the same object is rejected for the same reason: content that differs in every reconcile does not reset them.
type rejection struct {
	retry backoff.Retry
	// digest and request are those of the rejected write, uid that of the object that it was for.
	digest  string
	request Request
	uid     types.UID
	problem plan.Problem
	// gvk is that of the object, seen says that a watch has shown an object of another owner under its name, and free that this is gone since.
	gvk        schema.GroupVersionKind
	seen, free bool
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
		if r.free || !r.retry.Waits(now) || r.problem.Class != plan.Blocked && r.digest != a.Object.Digest {
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
		retry: retry, digest: r.Action.Object.Digest, request: request, uid: r.Action.UID, problem: *r.Problem, gvk: kindOf(r.Action.Object),
	}
}

func kindOf(o plan.Stamped) schema.GroupVersionKind {
	if o.Desired == nil {
		return schema.GroupVersionKind{}
	}
	return o.Desired.GroupVersionKind()
}

// maxTaken is how many names that another owner has are watched for one custom resource; each costs a read when its watch begins. The names
// beyond are tried again after the pauses.
const maxTaken = 16

// Taken returns the objects whose names another owner has, which a watch can report to be free, in the order of their keys.
func (s *State) Taken() []Taken {
	var out []Taken
	for key, r := range s.rejections {
		if r.problem.Reason == act.ReasonConflict && r.gvk.Kind != "" {
			out = append(out, Taken{key, r.gvk})
		}
	}
	slices.SortFunc(out, func(a, b Taken) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	return out[:min(len(out), maxTaken)]
}

// Taken is an object whose name another owner has.
type Taken struct {
	Key plan.Key
	GVK schema.GroupVersionKind
}

// See takes in whether a watch shows an object under a name that another owner has. Once it has shown one and shows none any more, the write
// is tried at once. The pauses go on growing where it is rejected again: a cache may be behind, and another client may take the name each time.
func (s *State) See(key plan.Key, there bool) {
	r, ok := s.rejections[key]
	if !ok {
		return
	}
	r.seen, r.free = r.seen || there, r.seen && !there
	s.rejections[key] = r
}
