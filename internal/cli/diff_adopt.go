package cli

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

// reasonAdopted is why a custom resource of a previous operator changes.
const reasonAdopted = "Adopted"

// adoptable are the custom resources that MLKeeper would adopt: those that have a finalizer of the previous operator, and those of
// which it has never written anything. MLKeeper need not be installed.
func (r *resolver) adoptable(ctx context.Context, namespace string) ([]*target, error) {
	c := &collector{cluster: r.cluster, namespace: namespace}
	var inventories byOwner
	if mapping, err := r.lookup(inventoryKind); err != nil {
		return nil, err
	} else if mapping != nil {
		inventories = c.inventories(ctx)
	}
	var out []*target
	for _, controller := range r.controllers {
		mapping, err := r.lookup(controller.GVK())
		if err != nil {
			return nil, err
		}
		if mapping == nil {
			continue
		}
		all, err := c.resources(ctx, mapping)
		if err != nil {
			return nil, c.explain(mapping.Resource.Resource, err)
		}
		for _, u := range all {
			known := entriesOf(u, inventories[inventoryOwner(stackOf(controller, u))])
			if len(known) == 0 || controller.Previous().Has(u) {
				out = append(out, &target{controller: controller, given: u, admitted: u.DeepCopy(), adopted: true})
			}
		}
	}
	return out, nil
}

// inventoriesOf are the Inventories of a custom resource. One that is adopted has none while MLKeeper is not installed.
func (d *differ) inventoriesOf(ctx context.Context, c *collector, t *target, stack plan.Stack) ([]keeper.Inventory, error) {
	if t.adopted {
		if mapping, err := d.lookup(inventoryKind); mapping == nil || err != nil {
			return nil, err
		}
	}
	return c.inventories(ctx)[inventoryOwner(stack)], nil
}

// adopts is what becomes of the custom resource itself: the finalizers of the previous operator are removed.
func (d *differ) adopts(t *target, stack string) ([]Difference, error) {
	previous := t.controller.Previous()
	if !t.adopted || !previous.Has(t.given) {
		return nil, nil
	}
	var removed, kept []string
	for _, finalizer := range t.given.GetFinalizers() {
		if slices.Contains(previous.Finalizers, finalizer) {
			removed = append(removed, finalizer)
		} else {
			kept = append(kept, finalizer)
		}
	}
	after := t.given.DeepCopy()
	after.SetFinalizers(kept)
	annotations := after.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[keeper.PreviousOperatorAnnotation] = "true"
	after.SetAnnotations(annotations)
	out := Difference{
		Stack: stack, Action: actionChanged, APIVersion: t.given.GetAPIVersion(), Kind: t.given.GetKind(), Namespace: t.given.GetNamespace(),
		Name: t.given.GetName(), Reason: reasonAdopted,
		Note: "the finalizer of the previous operator is removed: " + strings.Join(removed, ", "),
	}
	if err := d.write(&out, t.given, after, true); err != nil {
		return nil, err
	}
	return []Difference{out}, nil
}

// releases says that a live object is deleted with the custom resource, and would not be any more.
func (j *judged) releases(live, desired *unstructured.Unstructured) bool {
	return len(desired.GetOwnerReferences()) == 0 && len(j.othersOf(live)) < len(live.GetOwnerReferences())
}

// othersOf are the owners of an object that do not belong to the custom resource.
func (j *judged) othersOf(live *unstructured.Unstructured) []metav1.OwnerReference {
	return slices.DeleteFunc(live.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return slices.ContainsFunc(j.owners, func(o plan.Owner) bool { return o.UID == ref.UID })
	})
}

// restarts says that a change replaces the pods of a workload.
func restarts(live, after *unstructured.Unstructured) bool {
	switch live.GetKind() {
	case "Deployment", "StatefulSet", "DaemonSet":
	default:
		return false
	}
	was, _, _ := unstructured.NestedMap(live.Object, "spec", "template")
	is, _, _ := unstructured.NestedMap(after.Object, "spec", "template")
	return was != nil && !reflect.DeepEqual(was, is)
}

// adoption counts what people ask first about an adoption.
func (r *DiffReport) adoption(adopted int) string {
	released, restarted := 0, 0
	for i := range r.Objects {
		if r.Objects[i].Released {
			released++
		}
		if r.Objects[i].Restarts {
			restarted++
		}
	}
	if adopted == 0 {
		return "there is nothing to adopt"
	}
	restart := "no pod restarts"
	if restarted > 0 {
		restart = fmt.Sprintf("the pods of %d workloads restart", restarted)
	}
	return fmt.Sprintf("%d adopted, %d objects released, %s", adopted, released, restart)
}
