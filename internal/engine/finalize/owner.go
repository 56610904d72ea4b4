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
	// MayFinalize reports that the namespace belongs to this shard.
	MayFinalize bool
	// DynamicKinds reports that users define the kinds of the children, which may include Namespaces, definitions and webhooks.
	DynamicKinds bool
	// Resource is the name of the CustomResourceDefinition.
	Resource schema.GroupResource
}

// isOwnerDeleted reports whether the custom resource is deleted (law 4). The answer of a live read is kept until the caches show the
// UID again, as after a restore from a backup: every deleted child enqueues the finalization.
func (f *Finalizer) isOwnerDeleted(ctx context.Context, ref keeper.InventoryOwner, cached Owner) (bool, error) {
	exists := cached.UID == ref.UID
	if exists {
		f.setOwnerDeleted(string(ref.UID), false)
	}
	if !cached.Synced || exists || !cached.MayFinalize {
		return false, nil
	}
	if f.hasOwnerDeleted(string(ref.UID)) {
		return true, nil
	}
	deleted, err := f.readOwnerDeleted(ctx, ref, cached.Resource)
	if deleted {
		f.setOwnerDeleted(string(ref.UID), true)
	}
	return deleted, err
}

func (f *Finalizer) hasOwnerDeleted(ownerUID string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ownerDeleted[ownerUID]
}

func (f *Finalizer) setOwnerDeleted(ownerUID string, deleted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if deleted {
		f.ownerDeleted[ownerUID] = true
	} else {
		delete(f.ownerDeleted, ownerUID)
	}
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
