package faults

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// ownManagers begins the names of MLKeeper's field managers.
const ownManagers = "mlkeeper"

// absolute looks for what is wrong in every run, with or without faults (O7), so that a bug cannot teach it to the
// oracles by showing in the reference: what belongs to others is left alone, what they write stays, no claim goes, and
// nothing that one custom resource controls comes under the control of another.
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
		if e.Resource == "persistentvolumeclaims" && (e.Type == watch.Deleted || e.Object.GetDeletionTimestamp() != nil) {
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
