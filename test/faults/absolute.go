package faults

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	referents "mlkeeper.dev/test/references"
)

// ownManagers begins the names of MLKeeper's field managers.
const ownManagers = "mlkeeper"

// consistent compares what objects say of others with those, at this moment.
func (r *run) consistent(complain func(format string, args ...any)) {
	r.listed(complain)
	r.resolved(complain)
}

// inconsistent says that consistent has a complaint.
func (r *run) inconsistent() (found bool) {
	r.consistent(func(string, ...any) { found = true })
	return found
}

// absolute looks for what is wrong in every run, with or without faults (O7), so that a bug cannot teach it to the
// oracles by showing in the reference: what belongs to others is left alone, what they write stays, no claim goes, and
// nothing that one custom resource controls comes under the control of another. Neither is anything made that the kind does
// not make by its documentation, no status is of a generation to come, inventories list what is there and all of it, and what the workloads of
// a Ready custom resource refer to is there.
func (r *run) absolute() []Finding {
	var out []Finding
	complain := func(format string, args ...any) {
		f := Finding{Oracle: "O7", Text: fmt.Sprintf(format, args...)}
		if !slices.ContainsFunc(out, func(other Finding) bool { return other.Text == f.Text }) {
			out = append(out, f)
		}
	}
	events := r.history.sorted()
	r.claims(events, complain)
	r.controllers(events, complain)
	r.survived(events, complain)
	r.strangers(events, complain)
	r.declared(events, complain)
	r.truthful(events, complain)
	r.consistent(complain)
	for _, e := range events {
		key := r.key(e)
		if e.Version <= r.history.armed || e.Object.GetLabels()[foreignLabel] == "" {
			continue
		}
		for _, m := range e.Object.GetManagedFields() {
			if strings.HasPrefix(m.Manager, ownManagers) {
				complain("%s belongs to others, and %s wrote to it", key, m.Manager)
			}
		}
		if e.Type == watch.Deleted && r.allowed[key].Deleted == 0 {
			complain("%s belongs to others and was deleted", key)
		}
	}
	return out
}

// claims says which claim was deleted or is being deleted, which may take as long as a pod uses it.
func (r *run) claims(events []Event, complain func(format string, args ...any)) {
	if r.workload.LosesClaims {
		return
	}
	for _, e := range events {
		// That nobody deletes what is of others is asked of every object.
		if e.Resource == "persistentvolumeclaims" && e.Object.GetLabels()[foreignLabel] == "" && (e.Type == watch.Deleted || e.Object.GetDeletionTimestamp() != nil) {
			complain("%s was deleted", r.key(e))
		}
	}
}

// controllers says which object came from the control of one custom resource under that of another. Inventories count
// as the custom resource that they belong to, which passes its children on to them when it cannot own all of them.
func (r *run) controllers(events []Event, complain func(format string, args ...any)) {
	keepers := map[types.UID]types.UID{}
	for _, e := range events {
		if owner, found, _ := unstructured.NestedString(e.Object.Object, "spec", "owner", "uid"); found && e.Resource == inventories {
			keepers[e.Object.GetUID()] = types.UID(owner)
		}
	}
	last := map[types.UID]types.UID{}
	for _, e := range events {
		ref := metav1.GetControllerOfNoCopy(e.Object)
		if ref == nil {
			continue
		}
		owner := ref.UID
		if of, ok := keepers[owner]; ok {
			owner = of
		}
		uid := e.Object.GetUID()
		if before, known := last[uid]; known && before != owner {
			complain("%s passed from the control of one custom resource to that of another", r.key(e))
		}
		last[uid] = owner
	}
}

// strangers says what of somebody else was written although it was neither adopted nor wired, or deleted by an operator.
func (r *run) strangers(events []Event, complain func(format string, args ...any)) {
	foreign, ours := map[types.UID]bool{}, map[types.UID]bool{}
	for _, e := range events {
		uid := e.Object.GetUID()
		if e.Type == watch.Added && e.Resource != r.kind.Resource && !writtenByUs(e.Object) {
			foreign[uid] = true
		}
		if e.Object.GetLabels()[keeper.ControllerLabel] != "" || e.Object.GetAnnotations()[keeper.WiringAnnotation] != "" {
			ours[uid] = true
		}
		if foreign[uid] && !ours[uid] && writtenByUs(e.Object) {
			complain("%s is of somebody else and neither adopted nor wired, and MLKeeper wrote to it", r.key(e))
		}
	}
	for _, e := range r.deletions() {
		last := types.UID("")
		for _, event := range events {
			if r.key(event) == objectOf(e.Point) && event.Type != watch.Deleted && !event.At.After(e.At) {
				last = event.Object.GetUID()
			}
		}
		if foreign[last] && !ours[last] {
			complain("%s is of somebody else, and MLKeeper deleted it", objectOf(e.Point))
		}
	}
}

// deletions are the DELETE requests of operators that succeeded.
func (r *run) deletions() []entry {
	return r.journal.since(func(e entry) bool { return e.Verb == verbDelete && e.succeeded() })
}

func writtenByUs(u *unstructured.Unstructured) bool {
	return slices.ContainsFunc(u.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool {
		return strings.HasPrefix(m.Manager, ownManagers)
	})
}

// declared says which object carries MLKeeper's label that the kind is not documented to make.
func (r *run) declared(events []Event, complain func(format string, args ...any)) {
	for _, e := range events {
		key := r.key(e)
		if e.Object.GetLabels()[keeper.ControllerLabel] != "" && !strings.HasPrefix(key, inventories+"/") && r.kind.makes(key) == nil {
			complain("%s was made, which no %s has by its documentation", key, r.kind.GVK.Kind)
		}
	}
}

// truthful says which status is of a generation to come, and which Ready one lists an object that is not there.
func (r *run) truthful(events []Event, complain func(format string, args ...any)) {
	for _, e := range events {
		if e.Resource != r.kind.Resource {
			continue
		}
		seen, _, _ := unstructured.NestedInt64(e.Object.Object, "status", "observedGeneration")
		conditions, _, _ := unstructured.NestedSlice(e.Object.Object, "status", "conditions")
		for _, item := range conditions {
			if c, ok := item.(map[string]any); ok {
				of, _ := c["observedGeneration"].(int64)
				seen = max(seen, of)
			}
		}
		if seen > e.Object.GetGeneration() {
			complain("the status of %s is of generation %d, and there are %d", r.key(e), seen, e.Object.GetGeneration())
		}
	}
}

// resolved says what the workloads of a Ready custom resource refer to and is not there.
func (r *run) resolved(complain func(format string, args ...any)) {
	// Every namespace has this one, which is not recorded.
	objects := []client.Object{&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: r.world.Namespace, Name: "default"}}}
	ready := map[string]bool{}
	now := r.history.all("")
	for _, u := range now {
		if o := typed(u); o != nil {
			objects = append(objects, o)
		}
		for _, cr := range r.history.all(r.kind.Resource) {
			if isReady(cr) == nil && r.belongs(u, cr) {
				ready[u.GetKind()+" "+u.GetNamespace()+"/"+u.GetName()] = true
			}
		}
	}
	missing, _ := referents.Check(objects)
	for _, m := range missing {
		if ready[m.Workload] {
			complain("%s", strings.ReplaceAll(m.String(), r.world.Namespace, "NS"))
		}
	}
}

// typed is an object of a kind whose references are followed, or that they lead to; nil for others.
func typed(u *unstructured.Unstructured) client.Object {
	o, err := clientgoscheme.Scheme.New(u.GroupVersionKind())
	if err != nil || runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o) != nil {
		return nil
	}
	out, _ := o.(client.Object)
	return out
}
