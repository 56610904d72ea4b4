package finalize

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/log"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/inventory"
	"mlkeeper.dev/internal/engine/plan"
)

// webhookKinds are the kinds that make the API server call servers in the cluster.
var webhookKinds = []schema.GroupVersionKind{
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
	{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"},
}

// deleteWebhooks deletes the webhook configurations and APIServices that call the Services of a stack, also those that its controllers
// registered at run time (invariant 3). A webhook without its server would refuse the writes of others, and an APIService without one would
// break the discovery of all APIs.
func (f *Finalizer) deleteWebhooks(ctx context.Context, invs []*keeper.Inventory) error {
	services := map[plan.Key]bool{}
	for key, e := range inventory.Entries(invs) {
		if key.GroupKind == (schema.GroupKind{Kind: "Service"}) && e.UID != "" && e.Policy == "" {
			services[key] = true
		}
	}
	if len(services) == 0 {
		return nil
	}
	for _, gvk := range webhookKinds {
		mapping, served := f.Catalog.Lookup(gvk)
		if !served {
			continue
		}
		list, err := f.Client.Resource(mapping.Resource).List(ctx, metav1.ListOptions{})
		if apierrors.IsForbidden(err) {
			log.FromContext(ctx).Info("webhooks cannot be listed; only those that the Inventories own are deleted", "kind", gvk.Kind)
			continue
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", gvk.Kind, err)
		}
		for i := range list.Items {
			if u := &list.Items[i]; callsOnly(u, services) && !ownedByAnother(u, invs[0]) {
				if err := f.deleteObject(ctx, invs[0], mapping.Resource, u, nil); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// callsOnly reports whether an object makes the API server call some of the services, and no other one.
func callsOnly(u *unstructured.Unstructured, services map[plan.Key]bool) bool {
	called := decide.Called(u)
	return len(called) > 0 && !slices.ContainsFunc(called, func(k plan.Key) bool { return !services[k] })
}

// ownedByAnother reports whether the owner annotation of an object names another custom resource than an Inventory's.
func ownedByAnother(u *unstructured.Unstructured, inv *keeper.Inventory) bool {
	id := u.GetAnnotations()[keeper.OwnerAnnotation]
	return id != "" && id != inv.Annotations[keeper.OwnerAnnotation]
}

// deleteObject deletes a cluster-scoped object by UID, and by resourceVersion if one is given, with the rights that the stack was
// written with. An object that may not be deleted stays: finalization never waits for rights that were deleted with the custom
// resource.
func (f *Finalizer) deleteObject(
	ctx context.Context, inv *keeper.Inventory, resource schema.GroupVersionResource, u *unstructured.Unstructured, version *string,
) error {
	client, err := f.As(inv.Spec.Impersonate)
	if err != nil {
		return err
	}
	uid, background := u.GetUID(), metav1.DeletePropagationBackground
	err = client.Resource(resource).Delete(ctx, u.GetName(), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: version}, PropagationPolicy: &background,
	})
	key := plan.KeyOf(u)
	switch {
	case err == nil:
		f.Count(key, "Delete", "Teardown")
		log.FromContext(ctx).Info("deleted with its custom resource", "object", key.String())
	case apierrors.IsForbidden(err):
		log.FromContext(ctx).Info("not deleted, because the deletion is forbidden", "object", key.String(), "error", err.Error())
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}
