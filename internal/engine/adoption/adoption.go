// Package adoption takes a custom resource over from a previous operator (invariant 8): it releases the objects that must be retained after the custom
// resource from it, and then removes the finalizers of that operator, whose clean-up would never come. It renders nothing.
package adoption

import (
	"context"
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/engine/plan"
)

// Releaser removes custom resources from the owners of objects.
type Releaser interface {
	// Release releases an object that was rendered.
	Release(ctx context.Context, o plan.Stamped, owners []plan.Owner) error
	// ReleaseOwned releases every object of a kind that an owner has in its namespace.
	ReleaseOwned(ctx context.Context, gvk schema.GroupVersionKind, stack plan.Stack, owner plan.Owner) error
}

// Adopter adopts the custom resources of one kind.
type Adopter struct {
	// Finalizers are those of the previous operator.
	Finalizers []string
	// Retained are the kinds of the objects that must be retained after a custom resource.
	Retained []schema.GroupVersionKind
	Releaser Releaser
	// Patch writes to a custom resource by a merge patch.
	Patch func(ctx context.Context, cr metav1.Object, patch []byte) error
	// Live reads the custom resource with all its finalizers; nil where it is gone.
	Live func(ctx context.Context, cr metav1.Object) (metav1.Object, error)
}

// Pending says that a custom resource has finalizers of the previous operator.
func (a Adopter) Pending(cr metav1.Object) bool {
	return slices.ContainsFunc(cr.GetFinalizers(), a.isPrevious)
}

func (a Adopter) isPrevious(finalizer string) bool { return slices.Contains(a.Finalizers, finalizer) }

// ReleasePlan releases the objects of a plan that must be retained after the custom resource.
func (a Adopter) ReleasePlan(ctx context.Context, key digest.Key, p plan.Plan, stack plan.Stack, owner plan.Owner) error {
	for _, stage := range p.Stages {
		for _, o := range stage.Objects {
			if o.Policy() == "" {
				continue
			}
			stamped, err := plan.Stamp(key, o, stack, owner, 0)
			if err != nil {
				return err
			}
			if err := a.Releaser.Release(ctx, stamped, []plan.Owner{owner}); err != nil {
				return err
			}
		}
	}
	return nil
}

// ReleaseKinds releases every object of the retained kinds, for a deletion of which nothing can be rendered: it must not hang, and must
// not delete what was to be retained.
func (a Adopter) ReleaseKinds(ctx context.Context, stack plan.Stack, owner plan.Owner) error {
	for _, gvk := range a.Retained {
		if err := a.Releaser.ReleaseOwned(ctx, gvk, stack, owner); err != nil {
			return err
		}
	}
	return nil
}

// RemoveFinalizers removes the finalizers of the previous operator from the custom resource as it was read, and annotates it. The patch has
// the whole list of those that stay, which the cache does not have.
func (a Adopter) RemoveFinalizers(ctx context.Context, cr metav1.Object) error {
	live, err := a.Live(ctx, cr)
	if err != nil || live == nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": cr.GetUID(), "resourceVersion": cr.GetResourceVersion(),
		"finalizers":  slices.DeleteFunc(slices.Clone(live.GetFinalizers()), a.isPrevious),
		"annotations": map[string]any{keeper.PreviousOperatorAnnotation: "true"},
	}})
	if err != nil {
		return err
	}
	return a.Patch(ctx, cr, patch)
}
