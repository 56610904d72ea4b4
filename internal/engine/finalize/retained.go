package finalize

import (
	"context"
	"fmt"
	"sort"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/inventory"
	"mlkeeper.dev/internal/engine/plan"
)

// deleteRetained deletes the definitions and Namespaces of an Inventory, which the garbage collector must never delete (invariant 5). It
// keeps a definition that has custom resources, a Namespace that contains objects of others, the namespace of the custom resource,
// objects that another stack lists, and objects that are to be retained or were adopted. While it is undecided whose the content is, or a
// deletion failed, it is tried again with growing pauses; after the timeout of a gate the object is kept. again is the pause; zero if everything
// is decided.
func (f *Finalizer) deleteRetained(ctx context.Context, inv *keeper.Inventory) (again time.Duration, err error) {
	// The same for all Namespaces.
	resources := sync.OnceValues(f.NamespacedResources)
	var left leftovers
	for _, o := range retainedObjects(inv) {
		mapping, served := f.Catalog.Lookup(o.WithVersion(o.version))
		if !served {
			continue
		}
		live, err := f.Client.Resource(mapping.Resource).Get(ctx, o.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", o, err)
		}
		if !o.isDeletable(live, inv) {
			continue
		}
		content := contentOfOthers(f.listedElsewhere(o.Key, inv))
		if content.empty() {
			content = f.contentOf(ctx, inv, live, resources)
		}
		switch {
		case content.others != "":
			left.keep(live, holds+content.others)
		case content.undecided != "":
			left.undecided(live, holds+content.undecided,
				ReasonWaitingForGarbageCollection, "waiting for the garbage collector: "+o.String()+" contains "+content.undecided)
		default:
			// Only as it was read before its content was.
			version := live.GetResourceVersion()
			if err := f.deleteObject(ctx, inv, mapping.Resource, live, &version, &left); err != nil {
				return 0, err
			}
		}
	}
	return f.settle(ctx, inv, left)
}

// holds says why a Namespace or a definition stays.
const holds = "it still holds something: "

// retainedObject is an object that the garbage collector must never delete.
type retainedObject struct {
	plan.Key
	uid     types.UID
	version string
}

// retainedObjects returns the definitions of an Inventory, and then its Namespaces, which contain custom resources.
func retainedObjects(inv *keeper.Inventory) []retainedObject {
	var out []retainedObject
	for key, e := range inventory.Entries([]*keeper.Inventory{inv}) {
		own := key.Kind == "Namespace" && key.Name == inv.Spec.Owner.Namespace
		if plan.AlwaysRetained(key) && e.Policy == "" && e.UID != "" && !own {
			out = append(out, retainedObject{key, e.UID, e.Version})
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].String() < out[j].String() })
	return out
}

// isDeletable reports whether the live object is the one of the inventory entry, was not adopted and is not being deleted.
func (o retainedObject) isDeletable(live *unstructured.Unstructured, inv *keeper.Inventory) bool {
	return live.GetUID() == o.uid && live.GetDeletionTimestamp() == nil && live.GetAnnotations()[keeper.AdoptedAnnotation] == "" &&
		live.GetAnnotations()[keeper.OwnerAnnotation] == inv.Annotations[keeper.OwnerAnnotation]
}

// listedElsewhere names another custom resource whose Inventories list an object; empty for none.
func (f *Finalizer) listedElsewhere(key plan.Key, inv *keeper.Inventory) string {
	for _, other := range f.Inventories.List() {
		if other.Spec.Owner.UID == inv.Spec.Owner.UID {
			continue
		}
		for _, e := range other.Spec.Entries {
			if plan.KeyOfEntry(e) == key {
				return "what " + other.Annotations[keeper.OwnerAnnotation] + " declares"
			}
		}
	}
	return ""
}
