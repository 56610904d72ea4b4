package faults

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// alikeWithin is how long a changed custom resource may take, after its verdict, to be as a fresh one: what left the plan is
// deleted by the garbage collector.
const alikeWithin = 10 * time.Second

// failedAnswers bounds the answers of 500 and more to one request of a run, which no fault causes here.
const failedAnswers = 4

// fresh is a custom resource that was created with a spec, by which one that was changed to it is judged.
type fresh struct {
	verdict  verdict
	state    snapshot
	findings []Finding
}

// freshOf creates a custom resource with a spec in a namespace of its own.
func (s *Suite) freshOf(k *Kind, b *Base, spec map[string]any, patient bool) (*fresh, error) {
	r := s.newMisrun(k, b, Plan{Seed: s.Seed, Kind: k.Name, Workload: b.Name, Campaign: misoperation})
	defer s.endMisrun(r)
	if patient {
		r.calm = patientCalm
	}
	v, err := r.create(b, spec)
	if err != nil {
		return nil, fmt.Errorf("a fresh %s: %w", b.Name, err)
	}
	f := &fresh{verdict: v, state: r.state()}
	f.findings = r.unaided()
	return f, nil
}

func (s *Suite) endMisrun(r *run) {
	r.close()
	s.shared.leave(r)
}

// unaided asks the oracles that need no fresh custom resource.
func (r *run) unaided() []Finding {
	out := append(r.absolute(), r.honest(&reference{})...)
	all := r.journal.since(func(e entry) bool { return !e.event() && e.Resource != "" })
	if p, n := busiest(all); n > maxPerSecond {
		out = append(out, Finding{Oracle: "O8", Text: fmt.Sprintf("%s was asked for %d times within a second", p, n)})
	}
	failed := map[Point]int{}
	for _, e := range all {
		if e.Status >= http.StatusInternalServerError {
			if failed[e.Point]++; failed[e.Point] == failedAnswers {
				out = append(out, Finding{Oracle: "O8", Text: fmt.Sprintf("%s was answered with %d %d times", e.Point, e.Status, failedAnswers)})
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(out, r.failures...)
}

// owned are the objects of MLKeeper, as they are now.
func (r *run) owned() map[string]*unstructured.Unstructured {
	out := r.history.all("")
	for key, u := range out {
		if u.GetLabels()[keeper.ControllerLabel] == "" {
			delete(out, key)
		}
	}
	return out
}

// content is the snapshot of one object without its status.
func (r *run) content(key string, u *unstructured.Unstructured) map[string]string {
	all := take(map[string]*unstructured.Unstructured{key: u}, r.world.Namespace, func(string) bool { return false })
	for _, fields := range all {
		return fields
	}
	return nil
}

// inSnapshot is how a snapshot names an object of the history.
func (r *run) inSnapshot(key string) string {
	resource, name, _ := strings.Cut(key, "/")
	return resource + "/" + lasting(name, r.world.Namespace)
}

// untouched says which child is another one than before, or has other content, although a spec was refused that a fresh
// custom resource with it has no such child for. What a fresh one has may be as there.
func (r *run) untouched(before map[string]*unstructured.Unstructured, b *fresh, m mask, edits []Edit) []Finding {
	var out []Finding
	now := r.history.all("")
	for key, was := range before {
		resource, name, _ := strings.Cut(key, "/")
		child := r.inSnapshot(key)
		if resource == inventories {
			continue
		}
		is := now[key]
		wanted, rendered := map[string]string(nil), false
		if b != nil {
			wanted, rendered = b.state[child]
		}
		free := independent(now, name, edits)
		switch {
		case is == nil || is.GetUID() != was.GetUID():
			out = append(out, Finding{Oracle: "O10", Text: child + " was replaced or deleted by a spec that cannot be carried out"})
		case (is.GetGeneration() == was.GetGeneration() || slices.Contains(free, "spec.replicas")) && len(r.differing(child, key, was, is, m, free)) == 0:
		case rendered && missing(child, wanted, settledFields(snapshot{child: r.content(key, is)})[child], m) == "":
		default:
			diffs := r.differing(child, key, was, is, m, free)
			text := child + " was written by a spec that cannot be carried out"
			if len(diffs) > 0 {
				text += ": " + diffs[0].String()
			}
			out = append(out, Finding{Oracle: "O10", Text: text})
		}
	}
	slices.SortFunc(out, func(a, b Finding) int { return strings.Compare(a.Text, b.Text) })
	return out
}

// differing are the differences of a child without those of some fields.
func (r *run) differing(child, key string, was, is *unstructured.Unstructured, m mask, without []string) []Diff {
	return slices.DeleteFunc(compare(snapshot{child: r.content(key, was)}, snapshot{child: r.content(key, is)}, m), func(d Diff) bool {
		return slices.ContainsFunc(without, func(path string) bool { return strings.HasPrefix(d.Path, path) })
	})
}

// independent are the fields of a child that may change although the spec cannot be carried out: its owners, where an edit decides what is
// deleted, and its replicas, where an autoscaler has them.
func independent(now map[string]*unstructured.Unstructured, name string, edits []Edit) []string {
	var out []string
	if slices.ContainsFunc(edits, decidesDeletion) {
		out = append(out, "metadata.ownerReferences")
	}
	if now["horizontalpodautoscalers.autoscaling/"+name] != nil {
		out = append(out, "spec.replicas")
	}
	return out
}

// decidesDeletion says that an edit decides what is deleted with the custom resource. It counts at once, whatever else is wrong with the spec,
// since what a user wants to keep must not wait for a correction.
func decidesDeletion(e Edit) bool {
	return slices.ContainsFunc([]string{"/prune", "/deletionPolicy", "/retentionPolicy"}, func(field string) bool {
		return strings.HasSuffix(e.Path, field)
	})
}

// complainsOf says that a message is about the field of an edit, and not about what became of it.
func complainsOf(v verdict, edits []Edit) bool {
	return slices.ContainsFunc(edits, func(e Edit) bool {
		return strings.Contains(v.Message, "spec."+named(segments(e.Path)))
	})
}
