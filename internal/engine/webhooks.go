package engine

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
	"mlkeeper.dev/internal/engine/plan"
)

// hooks are the kinds by which the API server calls servers that run in the cluster.
var hooks = []schema.GroupVersionKind{
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
	{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"},
}

// unhook deletes, before anything else of a stack goes, what the API server calls the stack's servers by, whether the plan
// had it or a controller of the stack registered it at run time (invariant 3). Left behind, a webhook without its server refuses
// what others write, and an APIService without one breaks the discovery of all APIs. What calls a Service that stays is not deleted.
func (t *teardown) unhook(ctx context.Context, invs []*keeper.Inventory) error {
	services := map[plan.Key]bool{}
	for key, e := range entriesOf(invs) {
		if key.GroupKind == (schema.GroupKind{Kind: "Service"}) && e.UID != "" && e.Policy == "" {
			services[key] = true
		}
	}
	if len(services) == 0 {
		return nil
	}
	for _, gvk := range hooks {
		mapping, served := t.catalog.Lookup(gvk)
		if !served {
			continue
		}
		list, err := t.client.Resource(mapping.Resource).List(ctx, metav1.ListOptions{})
		if apierrors.IsForbidden(err) {
			log.FromContext(ctx).Info("what calls the servers of a stack cannot be listed; what its Inventories own goes with them", "kind", gvk.Kind)
			continue
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", gvk.Kind, err)
		}
		for i := range list.Items {
			if u := &list.Items[i]; callsOnly(u, services) && !madeForAnother(u, invs[0]) {
				if err := t.deleteObject(ctx, invs[0], mapping.Resource, u, nil); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// callsOnly says that an object has the API server call some of the services, and no other.
func callsOnly(u *unstructured.Unstructured, services map[plan.Key]bool) bool {
	called := decide.Called(u)
	return len(called) > 0 && !slices.ContainsFunc(called, func(k plan.Key) bool { return !services[k] })
}

// madeForAnother says that the marks of an object name another custom resource than an Inventory does.
func madeForAnother(u *unstructured.Unstructured, inv *keeper.Inventory) bool {
	id := u.GetAnnotations()[keeper.OwnerAnnotation]
	return id != "" && id != inv.Annotations[keeper.OwnerAnnotation]
}

// deleteObject deletes a cluster-scoped object by UID, and by resourceVersion where one is given, with the rights that the stack
// was written with. One that may not be
// deleted stays, and the log says so: the teardown never waits for rights that went with the custom resource.
func (t *teardown) deleteObject(
	ctx context.Context, inv *keeper.Inventory, resource schema.GroupVersionResource, u *unstructured.Unstructured, version *string,
) error {
	client, err := t.actor.Acting(inv.Spec.Impersonate)
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
		t.metrics.write(key, "Delete", "Teardown")
		log.FromContext(ctx).Info("deleted with its custom resource", "object", key.String())
	case apierrors.IsForbidden(err):
		log.FromContext(ctx).Info("left behind, since it may not be deleted", "object", key.String(), "reason", err.Error())
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}
