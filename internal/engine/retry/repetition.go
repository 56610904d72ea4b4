package retry

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
)

// An object that another client deletes or changes back whenever it was written, such as the token of a ServiceAccount that does not exist,
// is written again with backoff, and so are pods that are rendered from what changes back and forth.

// repetitionProof is how long an object must stay as it was written before it counts as kept: otherwise the custom resource would be Ready for
// a moment after each write.
const repetitionProof = 10 * time.Second

// Reasons of the problems.
const (
	// ReasonRecreationBackOff is that of an object that is deleted whenever it was made.
	ReasonRecreationBackOff = "RecreationBackOff"
	// ReasonRepairBackOff is that of an object that is changed back whenever it was repaired, or made again whenever it was deleted, and that of
	// a workload of which what it is rendered from changes back and forth.
	ReasonRepairBackOff = "RepairBackOff"
)

// Repeats says that a problem is about an object that may be written, and was, again and again.
func Repeats(problem plan.Problem) bool {
	return problem.Reason == ReasonRecreationBackOff || problem.Reason == ReasonRepairBackOff
}

// maxContents is how many contents of an object are remembered: where two clients disagree about what its pods are rendered from, it has two.
const maxContents = 4

// repetition is how often an object was written lately with the same content, and when it is again.
type repetition struct {
	backoff.Repetition
	// contents are the digests of what was written lately, the last one first.
	contents []string
	request  Request
	problem  plan.Problem
}

// Unproven is until when what was written after a pause may be taken back again; zero when there was no pause.
func Unproven(r backoff.Repetition) time.Time {
	if !r.Paused() {
		return time.Time{}
	}
	return r.Last().Add(repetitionProof)
}

// same says that what is declared was written lately for what is asked for now.
func (v repetition) same(o plan.Stamped, request Request) bool {
	return v.request == request && (o.Generated || slices.Contains(v.contents, o.Digest))
}

// wrote remembers a content, and forgets the oldest.
func (v *repetition) wrote(content string) {
	others := slices.DeleteFunc(v.contents, func(c string) bool { return c == content })
	v.contents = append([]string{content}, others[:min(len(others), maxContents-1)]...)
}

// holdRepetitions turns writes whose pause is not over into waits. It returns their problems, and those of objects that are as declared and
// may be changed again, with the time of the first change. Something else that is declared or asked for is written at once.
func (s *State) holdRepetitions(actions []decide.Action, request func(plan.Key) Request, now time.Time) (problems []plan.Problem, due time.Time) {
	for key, v := range s.repetitions {
		if v.Over(backoff.TakenBack, now) {
			delete(s.repetitions, key)
		}
	}
	for i := range actions {
		a := &actions[i]
		v, again := s.repetitions[a.Key]
		switch {
		case !again:
		case v.request != request(a.Key):
			delete(s.repetitions, a.Key)
		case !v.same(a.Object, v.request):
		case a.Writes() && v.Waits(now):
			a.Verb, a.Reason, a.Detail = decide.Wait, v.problem.Reason, a.Key.String()+" to be left alone"
			problems, due = append(problems, v.problem), earlier(due, v.Due())
		case !a.Writes() && now.Before(Unproven(v.Repetition)):
			problems, due = append(problems, v.problem), earlier(due, Unproven(v.Repetition))
		}
	}
	return problems, due
}

// recordRepetition counts the writes of an object with content that it had lately. It returns the problem of an object that may be changed
// again, and until when.
func (s *State) recordRepetition(r act.Result, request Request, now time.Time) (problems []plan.Problem, due time.Time) {
	if !r.Wrote || !repeated(r.Action) && !restarts(r.Action) {
		return nil, time.Time{}
	}
	if s.repetitions == nil {
		s.repetitions = map[plan.Key]repetition{}
	}
	v := s.repetitions[r.Action.Key]
	if !v.same(r.Action.Object, request) {
		v.Repetition = backoff.Repetition{}
	}
	if v.request != request {
		v.contents = nil
	}
	v.Again(backoff.TakenBack, now)
	v.request, v.problem = request, takenBack(r.Action)
	v.wrote(r.Action.Object.Digest)
	s.repetitions[r.Action.Key] = v
	if !v.Paused() {
		return nil, time.Time{}
	}
	return []plan.Problem{v.problem}, Unproven(v.Repetition)
}

// repeated says that a write follows from nothing but what somebody else did to the object: it is not the first one, and not that of another
// revision, for which a hook runs anew. What is generated changes when somebody has made what was stored useless.
func repeated(a decide.Action) bool {
	switch a.Reason {
	case decide.ReasonDrift, decide.ReasonPruned, decide.ReasonRecreated:
		return true
	case decide.ReasonChanged:
		return a.Object.Generated
	case decide.ReasonMissing:
		return a.KnownUID != ""
	case decide.ReasonUnverified:
		// Somebody made it anew with the labels and annotations that it had.
		return a.KnownUID != "" && a.KnownUID != a.UID
	}
	return false
}

// restarts says that a write may replace pods, whose content is not to go back and forth at the rate of whoever changes what it is rendered
// from. Other objects, such as a route whose weights follow the health of servers, are written whenever they change.
func restarts(a decide.Action) bool {
	return a.Verb == decide.Apply && a.Reason == decide.ReasonChanged && slices.Contains(rolling, a.Key.GroupKind)
}

// rolling are the kinds whose pods are replaced for another template.
var rolling = []schema.GroupKind{{Group: "apps", Kind: "Deployment"}, {Group: "apps", Kind: "StatefulSet"}, {Group: "apps", Kind: "DaemonSet"}}

// takenBack is the problem of an object that somebody changes or deletes whenever it was written.
func takenBack(a decide.Action) plan.Problem {
	p := plan.Problem{Class: plan.Blocked, Reason: ReasonRepairBackOff, Field: a.Key.Kind, Value: a.Key.Name}
	switch {
	case a.Verb == decide.Create:
		p.Reason = ReasonRecreationBackOff
		p.Message = a.Key.String() + " is deleted by somebody whenever it was made"
		p.Remedy = "find out who deletes it, by the audit log, and what that one misses, such as the ServiceAccount of a token"
	case a.Reason == decide.ReasonPruned:
		p.Message = a.Key.String() + " is made again by somebody whenever it was deleted, with the labels of MLKeeper"
		p.Remedy = "find out who makes it, by its managedFields and the audit log, and take these labels out of that one's manifests"
	case a.Reason == decide.ReasonChanged && !a.Object.Generated:
		p.Message = "what " + a.Key.String() + " is rendered from changes back and forth"
		p.Remedy = "find out who changes it, such as two clients that disagree about a Secret or ConfigMap that this resource refers to, by its " +
			"managedFields and the audit log, and have one of them leave it"
	default:
		p.Message = a.Key.String() + " is changed back by somebody whenever it was repaired"
		p.Remedy = "find out who changes it, by its managedFields and the audit log, and have one of the two leave it"
	}
	return p
}
