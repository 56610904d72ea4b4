package faults

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// lag is by how much an honest status may be behind the children: what an operator sees is always a little old.
const lag = 2 * time.Second

// safe looks at every instant of a run (O7): beside what is wrong in every run, nothing is made that the reference does
// not have, and replicas go down only where they go down in the reference.
func (r *run) safe(ref *reference, o observation) []Finding {
	out := r.absolute()
	complain := func(format string, args ...any) {
		out = append(out, Finding{Oracle: "O7", Text: fmt.Sprintf(format, args...)})
	}
	for name := range o.names {
		if !ref.names[name] {
			complain("%s was made, which the reference does not have", name)
		}
	}
	for drop := range o.drops {
		// What somebody else scaled up goes down to what is declared, and where somebody takes the field away, it is one.
		d := r.plan.Drift
		scaled := d != nil && (d.Change == ChangeField || d.Change == DeleteField) && d.Path == ".spec.replicas" &&
			strings.HasPrefix(drop, d.Resource+"/"+d.Name+" ")
		if !ref.drops[drop] && !scaled {
			complain("the replicas of %s, which nobody asked for", drop)
		}
	}
	return out
}

// honest looks at everything that was told (O5): a custom resource becomes Ready only with children that are, and no
// secret shows.
func (r *run) honest(ref *reference) []Finding {
	var out []Finding
	var secrets []string
	past := map[string][]Event{}
	var told []Event
	events := r.history.sorted()
	for _, e := range events {
		past[e.Resource+"/"+e.Object.GetName()] = append(past[e.Resource+"/"+e.Object.GetName()], e)
		switch e.Resource {
		case "secrets":
			secrets = append(secrets, secretsOf(e.Object)...)
		case r.kind.Resource:
			told = append(told, e)
		}
	}
	wasReady := map[string]int64{}
	for _, e := range told {
		if text := statusText(e.Object); text != "" {
			for _, s := range secrets {
				if strings.Contains(text, s) {
					out = append(out, Finding{Oracle: "O5", Text: "the status of " + e.Object.GetName() + " shows a secret"})
				}
			}
		}
		uid := string(e.Object.GetUID())
		if e.Type == watch.Deleted || isReady(e.Object) != nil {
			wasReady[uid] = 0
			continue
		}
		if wasReady[uid] == e.Object.GetGeneration() {
			continue
		}
		wasReady[uid] = e.Object.GetGeneration()
		if text := r.premature(ref, e, past); text != "" {
			out = append(out, Finding{Oracle: "O5", Text: fmt.Sprintf("%s became Ready at generation %d although %s",
				e.Object.GetName(), e.Object.GetGeneration(), text)})
		}
	}
	return out
}

// premature says which child was not ready, nor had been a moment before, when a custom resource became Ready.
func (r *run) premature(ref *reference, ready Event, past map[string][]Event) string {
	seen := map[string]bool{}
	for key, events := range past {
		good, ours := false, false
		for _, u := range r.lately(events, ready) {
			ours = u != nil && r.belongs(u, ready.Object)
			good = good || ours && current(u)
		}
		if good {
			seen[r.inSnapshot(key)] = true
		}
		if ours && !good && (r.kind.Apart == nil || !r.kind.Apart.MatchString(key)) {
			return key + " was not ready"
		}
	}
	now := r.history.get(r.kind.Resource, ready.Object.GetName())
	if now == nil || now.GetGeneration() != ready.Object.GetGeneration() || now.GetUID() != ready.Object.GetUID() {
		return ""
	}
	// What was told before the last thing that the users did was told of another state than the end.
	if ready.At.Before(r.acted) {
		return ""
	}
	for _, child := range ref.children[ready.Object.GetName()] {
		if !seen[child] && r.allowed[child] == (tally{}) {
			return child + " did not exist"
		}
	}
	return r.outdated(ref, ready, past)
}

// lately are the states of an object, by its events, that an honest status may tell of: those that were not over for
// longer than the lag when the custom resource became Ready. Nil stands for a time in which there was no such object.
func (r *run) lately(events []Event, ready Event) []*unstructured.Unstructured {
	since := ready.At.Add(-r.lag())
	var out []*unstructured.Unstructured
	for i, e := range events {
		if e.Version > ready.Version {
			break
		}
		until := ready.At
		if i+1 < len(events) && events[i+1].Version <= ready.Version {
			until = events[i+1].At
		}
		if until.Before(since) {
			continue
		}
		if e.Type == watch.Deleted {
			out = append(out, nil)
		} else {
			out = append(out, e.Object)
		}
	}
	return out
}

// outdated says which child did not have the content of the end, when the custom resource became Ready for its last
// generation, nor a moment before: an old Deployment that was never updated is as healthy as a new one.
func (r *run) outdated(ref *reference, ready Event, past map[string][]Event) string {
	m := r.masked(ref)
	for key, events := range past {
		resource, _, _ := strings.Cut(key, "/")
		child := r.inSnapshot(key)
		if !slices.Contains(ref.children[ready.Object.GetName()], child) || r.allowed[child] != (tally{}) || m.has(child, "") ||
			resource == "secrets" {
			continue // The content of a Secret may be made anew.
		}
		text := ""
		for _, u := range r.lately(events, ready) {
			if u == nil {
				continue
			}
			have := take(map[string]*unstructured.Unstructured{key: u}, r.world.Namespace, func(string) bool { return false })
			if text = missing(child, ref.end[child], have[child], m); text == "" {
				break
			}
		}
		if text != "" {
			return text
		}
	}
	return ""
}

// missing names a field of the content of a child that is not as it is wanted. What others added is not looked at.
func missing(child string, want, have map[string]string, m mask) string {
	for path, value := range want {
		content := !strings.HasPrefix(path, "metadata.") && !strings.HasPrefix(path, "status.")
		if got, there := have[path]; content && (!there || got != value) && !m.has(child, path) {
			return fmt.Sprintf("%s of %s was %s, not %s", path, child, short(got), short(value))
		}
	}
	return ""
}

// lag is by how much the status may be behind; a plan that holds watches back adds what it holds them for.
func (r *run) lag() time.Duration {
	if f := r.plan.Fault; f != nil && (f.Do.streams() || f.Back > 0) {
		return lag + time.Duration(f.For)
	}
	return lag
}

// belongs says that an object carries the marks of a custom resource.
func (r *run) belongs(u, cr *unstructured.Unstructured) bool {
	owner := u.GetAnnotations()[keeper.OwnerAnnotation]
	return strings.HasSuffix(owner, "/"+cr.GetNamespace()+"/"+cr.GetName()) && u.GetLabels()[keeper.ControllerLabel] != "" &&
		u.GetLabels()[foreignLabel] == ""
}

// current says that an object is ready: that kstatus calls it Current or, of a Deployment, that its rollout is complete
// as kubectl tells. kstatus asks for a reason that the controller never gives to a rollout that was undone at once, and takes what an
// InferenceService copies from a Deployment (kserve#6081) for its own generation.
func current(u *unstructured.Unstructured) bool {
	if u.GetKind() == "Deployment" {
		count := func(missing int64, path ...string) int64 {
			if n, found, err := unstructured.NestedInt64(u.Object, path...); found && err == nil {
				return n
			}
			return missing
		}
		want := count(1, "spec", "replicas")
		return count(0, "status", "observedGeneration") >= u.GetGeneration() && count(0, "status", "updatedReplicas") >= want &&
			count(0, "status", "replicas") <= want && count(0, "status", "availableReplicas") >= want
	}
	if u.GetKind() == "InferenceService" {
		u = u.DeepCopy()
		unstructured.RemoveNestedField(u.Object, "status", "observedGeneration")
	}
	res, err := status.Compute(u)
	return err == nil && res.Status == status.CurrentStatus
}

// secretsOf are the values of a Secret that must be nowhere else. What is short, or an ordinary word, is no secret.
func secretsOf(u *unstructured.Unstructured) []string {
	data, _, _ := unstructured.NestedStringMap(u.Object, "data")
	var out []string
	for key, value := range data {
		hidden := strings.Contains(strings.ToLower(key), "password") || strings.HasSuffix(key, ".key")
		raw, err := base64.StdEncoding.DecodeString(value)
		if err == nil && hidden && len(raw) >= 6 {
			// Of a key in many lines, the longest is as telling, and stands in JSON as it is.
			lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
			out = append(out, slices.MaxFunc(lines, func(a, b string) int { return len(a) - len(b) }))
		}
	}
	return out
}

func statusText(u *unstructured.Unstructured) string {
	told, ok := u.Object["status"]
	if !ok {
		return ""
	}
	raw, err := json.Marshal(told)
	if err != nil {
		return ""
	}
	return string(raw)
}
