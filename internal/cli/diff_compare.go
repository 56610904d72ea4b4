package cli

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/engine/fieldownership"
	"mlkeeper.dev/internal/engine/observe"
)

// compare returns what an action would do to its object; nil for one that has no effect and needs no line.
func (d *differ) compare(ctx context.Context, j *judged, a decide.Action) (*Difference, error) {
	out := &Difference{Kind: a.Key.Kind, Namespace: a.Key.Namespace, Name: a.Key.Name, Reason: a.Reason, Action: actionUnchanged}
	live := j.live[a.Key]
	switch {
	case a.Object.Desired != nil:
		out.APIVersion = a.Object.Desired.GetAPIVersion()
	case live != nil:
		out.APIVersion = live.GetAPIVersion()
	}
	switch a.Verb {
	case decide.Skip:
		out.Action, out.Note = actionSkipped, "its API is not served, and it is optional"
	case decide.Conflict:
		out.Action, out.Note = actionConflict, "it belongs to another custom resource and is not modified"
	case decide.Leave:
		if a.Reason == decide.ReasonRetained {
			out.Note = "it is no longer declared, and retained since it may contain data"
		}
		if a.Reason == decide.ReasonSuspended {
			out.Note = "it is suspended"
		}
	case decide.Delete:
		out.Action = actionDeleted
		return out, d.write(out, live, nil, j.owned)
	case decide.Wait:
		if a.Object.Desired == nil || live != nil {
			out.Note = "it waits for " + a.Detail
			return out, nil
		}
		out.Note = "after " + a.Detail
		return d.created(out, j, a)
	case decide.Create:
		if live == nil {
			return d.created(out, j, a)
		}
		return d.taken(ctx, out, j, a, live)
	case decide.Apply:
		return d.changed(ctx, out, j, a, live)
	}
	return out, nil
}

func (d *differ) created(out *Difference, j *judged, a decide.Action) (*Difference, error) {
	out.Action = actionCreated
	return out, d.write(out, nil, fieldownership.ForCreate(a.Object.Desired), j.owned)
}

// taken is an object that exists with the name of a child and without MLKeeper's label: ours, to be adopted, or of another owner,
// which is not modified (invariant 1).
func (d *differ) taken(
	ctx context.Context, out *Difference, j *judged, a decide.Action, live *unstructured.Unstructured,
) (*Difference, error) {
	found := observe.From(live, false)
	free := len(live.GetOwnerReferences()) == 0 && found.Annotations[keeper.OwnerAnnotation] == ""
	a.Migrate = true
	switch {
	case found.OwnedBy(j.stack, j.owners...) || found.Refers(j.owners...) || found.Written() && a.KnownUID != "" && a.KnownUID == found.UID ||
		free && (a.Object.Inherit || j.mark.Of(live.GetAnnotations())):
		a.MigratePrevious = found.AppliedHash() == "" && !a.Object.Partial
	case j.adopt && free:
		a.Adopted = true
		out.Note = "it is adopted, as the custom resource allows"
	default:
		out.Action, out.Note = actionConflict, "an object of another owner has its name and is not modified"
		return out, nil
	}
	return d.changed(ctx, out, j, a, live)
}

// changed predicts what an apply would leave of a live object.
func (d *differ) changed(
	ctx context.Context, out *Difference, j *judged, a decide.Action, live *unstructured.Unstructured,
) (*Difference, error) {
	managers := sets.New(observe.FieldManager)
	if a.MigratePrevious {
		managers.Insert(fieldownership.PreviousManagers(live, j.previous.Managers, j.owners, j.mark, observe.FieldManager)...)
	}
	scaled := act.LeavesReplicas(ctx, d.dynamic, a.Object.Object, live)
	desired := fieldownership.DropExternallyManaged(a.Object.Desired, live, managers, scaled).DeepCopy()
	liveDigests(desired.Object, live.Object)
	if a.Adopted {
		desired.SetOwnerReferences(nil)
		annotations := desired.GetAnnotations()
		annotations[keeper.AdoptedAnnotation] = "true"
		desired.SetAnnotations(annotations)
	}
	after, note, err := d.predict(ctx, a, live, desired, managers)
	if err != nil {
		return nil, err
	}
	var notes []string
	out.Released = j.releases(live, desired)
	if out.Released {
		after = after.DeepCopy()
		after.SetOwnerReferences(j.othersOf(live))
		notes = append(notes, "it is released, and stays when the custom resource is deleted")
	}
	if out.Restarts = restarts(live, after); out.Restarts {
		notes = append(notes, "its pods restart")
	}
	if note != "" {
		notes = append(notes, note)
	}
	if len(notes) > 0 {
		out.Note = strings.Join(notes, "; ")
	}
	if err := d.write(out, live, after, j.owned || out.Released); err != nil {
		return nil, err
	}
	if out.Diff != "" {
		out.Action = actionChanged
	}
	return out, nil
}

// liveDigests replaces the digests in annotations that only the operator can compute by the live ones: a diff does not tell whether the
// content of a Secret differs from what the pods have read.
func liveDigests(desired, live map[string]any) {
	for name, value := range desired {
		now, isMap := value.(map[string]any)
		was, _ := live[name].(map[string]any)
		if !isMap {
			continue
		}
		if name != "annotations" {
			liveDigests(now, was)
			continue
		}
		for annotation, value := range was {
			if now[annotation] == digest.Redacted {
				now[annotation] = value
			}
		}
	}
}

// write compares what is with what would be; either may be nil.
func (d *differ) write(out *Difference, live, after *unstructured.Unstructured, owned bool) error {
	before, then := declarable(live, owned), declarable(after, owned)
	mask(before, then)
	text, err := unifiedYAML(before, then)
	if err != nil {
		return fmt.Errorf("compare %s %s: %w", out.Kind, out.Name, err)
	}
	out.Diff = text
	return nil
}

// declarable is an object without what nobody declares: what the API server keeps, the status, and the digest, which
// changes with every change that is shown anyway.
func declarable(u *unstructured.Unstructured, owned bool) *unstructured.Unstructured {
	if u == nil {
		return nil
	}
	out := u.DeepCopy()
	delete(out.Object, "status")
	for _, field := range []string{
		"managedFields", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds", "selfLink",
	} {
		unstructured.RemoveNestedField(out.Object, "metadata", field)
	}
	if !owned {
		unstructured.RemoveNestedField(out.Object, "metadata", "ownerReferences")
	}
	annotations := out.GetAnnotations()
	delete(annotations, keeper.AppliedHashAnnotation)
	if out.GroupVersionKind().GroupKind() == secretKind {
		// kubectl keeps all values in it.
		delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	out.SetAnnotations(annotations)
	return out
}

// mask hides the values of Secrets, in place, but for whether they differ.
func mask(before, after *unstructured.Unstructured) {
	secret := func(u *unstructured.Unstructured) bool {
		return u != nil && u.GroupVersionKind().GroupKind() == secretKind
	}
	if !secret(before) && !secret(after) {
		return
	}
	values := func(u *unstructured.Unstructured) map[string]any {
		if !secret(u) {
			return nil
		}
		if u.Object["stringData"] != nil {
			u.Object["stringData"] = redacted // The API server would refuse it, or it were in data.
		}
		if data, isMap := u.Object["data"].(map[string]any); isMap || u.Object["data"] == nil {
			return data
		}
		u.Object["data"] = redacted
		return nil
	}
	was, is := values(before), values(after)
	for key := range maps.Clone(was) {
		value, both := is[key]
		switch {
		case !both:
			was[key] = redacted
		case value == was[key]:
			was[key], is[key] = redacted, redacted
		default:
			was[key], is[key] = redacted+" (live)", redacted+" (declared)"
		}
	}
	for key, value := range is {
		if _, both := was[key]; !both && value != redacted {
			is[key] = redacted
		}
	}
}
