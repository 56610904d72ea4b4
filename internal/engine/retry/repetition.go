package retry

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/engine/plan"
)

// An object that another client deletes or changes back whenever it was written, such as the token of a ServiceAccount that does not exist,
// is written again with backoff, and so are pods that are rendered from what changes back and forth, or is new again and again.

// repetitionProof is how long an object must stay as it was written before it counts as kept: otherwise the custom resource would be Ready for
// a moment after each write.
const repetitionProof = 10 * time.Second

// Reasons of the problems.
const (
	// ReasonRecreationBackOff is that of an object that is deleted whenever it was made.
	ReasonRecreationBackOff = "RecreationBackOff"
	// ReasonRepairBackOff is that of an object that is changed back whenever it was repaired, or made again whenever it was deleted, and that of
	// a workload of which what it is rendered from changes again and again.
	ReasonRepairBackOff = "RepairBackOff"
)

// Repeats says that a problem is about an object that may be written, and was, again and again.
func Repeats(problem plan.Problem) bool {
	return problem.Reason == ReasonRecreationBackOff || problem.Reason == ReasonRepairBackOff
}

// maxContents is how many contents of an object are remembered: where two clients disagree about what its pods are rendered from, it has two.
const maxContents = 4

// repetition is how often an object was written lately with the same content, or with pods replaced, and when it is again.
type repetition struct {
	backoff.Repetition
	// anew is how often its pods were replaced for a content that was not written lately. That has a bound of its own, so that the content that ends
	// a disagreement of two clients is written at once.
	anew backoff.Repetition
	// contents are the digests of what was written lately, the last one first, and template is that of its pod template.
	contents []string
	template string
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

// replaces says that a write replaces the pods of what was written last.
func (v repetition) replaces(a decide.Action) bool {
	return restarts(a) && templateOf(a.Object) != v.template
}

// bound is what a write waits for. Something else that is declared, and replaces no pods, waits for nothing.
func (v repetition) bound(a decide.Action) backoff.Repetition {
	switch {
	case v.same(a.Object, v.request):
		return v.Repetition
	case v.replaces(a):
		return v.anew
	}
	return backoff.Repetition{}
}

// unproven is until when the last write after a pause may be taken back again; zero when there was no pause.
func (v repetition) unproven() time.Time {
	again, anew := Unproven(v.Repetition), Unproven(v.anew)
	if again.Before(anew) {
		return anew
	}
	return again
}

// wrote remembers a content, and forgets the oldest.
func (v *repetition) wrote(o plan.Stamped) {
	others := slices.DeleteFunc(v.contents, func(c string) bool { return c == o.Digest })
	v.contents = append([]string{o.Digest}, others[:min(len(others), maxContents-1)]...)
	v.template = templateOf(o)
}

// templateOf is a digest of the pod template that an object declares; empty where it declares none.
func templateOf(o plan.Stamped) string {
	if o.Desired == nil {
		return ""
	}
	template, _, _ := unstructured.NestedFieldNoCopy(o.Desired.Object, "spec", "template")
	sum := sha256.New()
	if template == nil || json.NewEncoder(sum).Encode(template) != nil {
		return ""
	}
	return digest.Text(sum)
}

// holdRepetitions turns writes whose pause is not over into waits. It returns their problems, and those of objects that are as declared and
// may be changed again, with the time of the first change. Something else that is declared or asked for is written at once.
func (s *State) holdRepetitions(actions []decide.Action, request func(plan.Key) Request, now time.Time) (problems []plan.Problem, due time.Time) {
	for key, v := range s.repetitions {
		if v.Over(backoff.TakenBack, now) && v.anew.Over(backoff.TakenBack, now) {
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
		case a.Writes():
			if bound := v.bound(*a); bound.Waits(now) {
				a.Verb, a.Reason, a.Detail = decide.Wait, v.problem.Reason, a.Key.String()+" to be left alone"
				problems, due = append(problems, v.problem), earlier(due, bound.Due())
			}
		case v.same(a.Object, v.request) && now.Before(v.unproven()):
			problems, due = append(problems, v.problem), earlier(due, v.unproven())
		}
	}
	return problems, due
}

// recordRepetition counts the writes of an object with content that it had lately, and those that replace pods. It returns the problem of an
// object that may be changed again, and until when.
func (s *State) recordRepetition(r act.Result, request Request, now time.Time) (problems []plan.Problem, due time.Time) {
	if !r.Wrote || !Repeated(r.Action) && !restarts(r.Action) {
		return nil, time.Time{}
	}
	if s.repetitions == nil {
		s.repetitions = map[plan.Key]repetition{}
	}
	v := s.repetitions[r.Action.Key]
	if v.request != request {
		v = repetition{request: request}
	}
	switch {
	case v.same(r.Action.Object, request):
	case v.replaces(r.Action):
		v.anew.Again(backoff.TakenBack, now)
	default:
		v.Repetition = backoff.Repetition{}
	}
	v.Again(backoff.TakenBack, now)
	v.problem = takenBack(r.Action)
	v.wrote(r.Action.Object)
	s.repetitions[r.Action.Key] = v
	if due = v.unproven(); !now.Before(due) {
		return nil, time.Time{}
	}
	return []plan.Problem{v.problem}, due
}

// Repeated says that a write follows from nothing but what somebody else did to the object: it is not the first one, and not that of another
// revision, for which a hook runs anew. What is generated changes when somebody has made what was stored useless.
func Repeated(a decide.Action) bool {
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

// restarts says that a write may replace pods, which is not to happen at the rate of whoever changes what they are rendered
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
		p.Message = "what " + a.Key.String() + " is rendered from changes again and again"
		p.Remedy = "find out who changes it, such as two clients that disagree about a Secret or ConfigMap that this resource refers to, or one that " +
			"issues a certificate in a loop, by its managedFields and the audit log, and have it left alone"
	default:
		p.Message = a.Key.String() + " is changed back by somebody whenever it was repaired"
		p.Remedy = "find out who changes it, by its managedFields and the audit log, and have one of the two leave it"
	}
	return p
}
