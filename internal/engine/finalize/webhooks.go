package finalize

import (
	"context"
	"fmt"
	"slices"
	"time"

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
// break the discovery of all APIs. again is when to try again what could not be decided, since the last Inventory waits for that; zero if
// everything is decided.
func (f *Finalizer) deleteWebhooks(ctx context.Context, invs []*keeper.Inventory) (again time.Duration, err error) {
	services := map[plan.Key]bool{}
	for key, e := range inventory.Entries(invs) {
		if key.GroupKind == (schema.GroupKind{Kind: "Service"}) && e.UID != "" && e.Policy == "" {
			services[key] = true
		}
	}
	if len(services) == 0 {
		return 0, nil
	}
	var left leftovers
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
			return 0, fmt.Errorf("list %s: %w", gvk.Kind, err)
		}
		for i := range list.Items {
			if u := &list.Items[i]; callsOnly(u, services) && !ownedByAnother(u, invs[0]) {
				if err := f.deleteObject(ctx, invs[0], mapping.Resource, u, nil, &left); err != nil {
					return 0, err
				}
			}
		}
	}
	return f.settle(ctx, invs[len(invs)-1], left)
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
