package finalize

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// Owner is what the caches know of the custom resource that an Inventory belongs to.
type Owner struct {
	// UID is that of the cached custom resource of this name; empty if there is none.
	UID types.UID
	// Synced reports that the cache is complete, so that an empty UID means absence.
	Synced bool
	// MayFinalize reports that this manager watches the namespace.
	MayFinalize bool
	// DynamicKinds reports that users define the kinds of the children, which may include Namespaces, definitions and webhooks.
	DynamicKinds bool
	// Resource is the name of the CustomResourceDefinition.
	Resource schema.GroupResource
}

// isOwnerDeleted reports whether a custom resource that is not in the caches is deleted (invariant 4). A confirmed deletion is not read again:
// reset removes the condition of the first Inventory if the caches show the UID again.
func (f *Finalizer) isOwnerDeleted(ctx context.Context, first *keeper.Inventory, cached Owner) (bool, error) {
	switch {
	case !cached.Synced:
		return false, nil
	case isTrue(first, ConditionOwnerDeleted):
		return true, nil
	}
	return f.readOwnerDeleted(ctx, first.Spec.Owner, cached.Resource)
}

// readOwnerDeleted reads the custom resource live. It is deleted if the answer is NotFound or another UID while its definition
// exists, or if the definition itself does not exist. Every other answer means wait.
func (f *Finalizer) readOwnerDeleted(ctx context.Context, ref keeper.InventoryOwner, crd schema.GroupResource) (bool, error) {
	gk := schema.GroupKind{Group: ref.Group, Kind: ref.Kind}
	for _, version := range f.Catalog.Versions(gk) {
		mapping, served := f.Catalog.Lookup(gk.WithVersion(version))
		if !served {
			continue
		}
		live, err := f.Client.Resource(mapping.Resource).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		switch {
		case err == nil:
			return live.GetUID() != ref.UID, nil
		case !apierrors.IsNotFound(err):
			return false, fmt.Errorf("read whether %s %s/%s is deleted: %w", ref.Kind, ref.Namespace, ref.Name, err)
		}
		// NotFound is the answer for a missing object and for a missing API alike: it counts only while the definition exists.
		exists, err := f.Catalog.CRDExists(ctx, mapping.Resource.GroupResource())
		if err != nil {
			return false, err
		}
		if exists {
			return true, nil
		}
	}
	exists, err := f.Catalog.CRDExists(ctx, crd)
	return err == nil && !exists, err
}
