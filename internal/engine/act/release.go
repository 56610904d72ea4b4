package act

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/listing"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

// Release takes an object that must be retained after its custom resource from the custom resource, if it is there. Of a kind that is not
// served there is none.
func (a *Actor) Release(ctx context.Context, o plan.Stamped, owners []plan.Owner) error {
	gvk, served := a.servedVersion(o.Desired.GroupVersionKind())
	if !served {
		return nil
	}
	client, err := a.resource(gvk, o.Key.Namespace)
	if err != nil {
		return err
	}
	live, err := client.Get(ctx, o.Key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", o.Key, err)
	}
	return release(ctx, client, live, o.Desired, owners)
}

// ReleaseOwned takes every object of a kind in the namespace of a custom resource that refers to it from it. What of it
// is to stay cannot be told, so all of it does, and is known again by the marks.
func (a *Actor) ReleaseOwned(ctx context.Context, gvk schema.GroupVersionKind, stack plan.Stack, self plan.Owner) error {
	client, err := a.resource(gvk, stack.Namespace)
	if err != nil {
		return err
	}
	marks := &unstructured.Unstructured{Object: map[string]any{}}
	marks.SetLabels(map[string]string{keeper.ControllerLabel: stack.Controller, keeper.StackLabel: stack.Hash()})
	marks.SetAnnotations(map[string]string{keeper.OwnerAnnotation: stack.ID()})
	var refused error
	err = listing.Each(ctx, client, "", 0, func(u *unstructured.Unstructured) bool {
		if err := release(ctx, client, u, marks, []plan.Owner{self}); err != nil {
			refused = fmt.Errorf("free %s %s: %w", gvk.Kind, u.GetName(), err)
		}
		return refused == nil
	})
	if err != nil {
		return fmt.Errorf("list %s in namespace %s: %w", gvk.Kind, stack.Namespace, err)
	}
	return refused
}

// release takes references to our owners that are not declared off an object, such as the one by which the previous
// operator made a retained object go with the custom resource, or the one to the custom resource where an Inventory is
// the owner now, and of the declared one what we never set (invariants 2 and 8). They belong to another field manager, so
// that an apply would leave them. Our marks come with the same write, so that a crash leaves an object that is known
// again. It changes live to what was written.
func release(
	ctx context.Context, client dynamic.ResourceInterface, live, desired *unstructured.Unstructured, owners []plan.Owner,
) error {
	declared := desired.GetOwnerReferences()
	var refs []metav1.OwnerReference
	stale := false
	for _, ref := range live.GetOwnerReferences() {
		ours := slices.ContainsFunc(owners, func(o plan.Owner) bool { return o.UID == ref.UID })
		if ours && (ref.BlockOwnerDeletion != nil ||
			!slices.ContainsFunc(declared, func(d metav1.OwnerReference) bool { return d.UID == ref.UID })) {
			stale = true
			continue
		}
		refs = append(refs, ref)
	}
	if !stale {
		return nil
	}
	for _, d := range declared {
		if !slices.ContainsFunc(refs, func(ref metav1.OwnerReference) bool { return d.UID == ref.UID }) {
			refs = append(refs, d)
		}
	}
	labels, annotations := desired.GetLabels(), desired.GetAnnotations()
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": live.GetUID(), "resourceVersion": live.GetResourceVersion(), "ownerReferences": refs,
		"labels": map[string]any{
			keeper.ControllerLabel: labels[keeper.ControllerLabel], keeper.StackLabel: labels[keeper.StackLabel],
		},
		"annotations": map[string]any{keeper.OwnerAnnotation: annotations[keeper.OwnerAnnotation]},
	}})
	if err != nil {
		return fmt.Errorf("encode the owner references of %s: %w", live.GetName(), err)
	}
	out, err := client.Patch(ctx, live.GetName(), types.MergePatchType, data,
		metav1.PatchOptions{FieldManager: observe.FieldManager})
	if err != nil {
		return err
	}
	live.Object = out.Object
	return nil
}
