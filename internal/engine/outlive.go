package engine

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/log"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

// outlivers deletes, when nothing else of a stack is left, the definitions and Namespaces that had to outlive it (law 5). A
// definition of which there is a custom resource stays, and so does a Namespace that holds anything but what Kubernetes
// puts into each, the namespace of the custom resource, and what is to be retained or was adopted.
func (t *teardown) outlivers(ctx context.Context, inv *keeper.Inventory) error {
	var keys []plan.Key
	entries := ledgerOf([]*keeper.Inventory{inv})
	for key, e := range entries {
		own := key.Kind == "Namespace" && key.Name == inv.Spec.Owner.Namespace
		if plan.OutlivesAlways(key) && e.Policy != keeper.Retain && e.UID != "" && !own {
			keys = append(keys, key)
		}
	}
	// Definitions before Namespaces, which hold custom resources.
	sort.Slice(keys, func(i, j int) bool { return keys[i].String() < keys[j].String() })
	// The same for all Namespaces.
	resources := sync.OnceValues(t.disco.ServerPreferredNamespacedResources)
	for _, key := range keys {
		gvk := key.WithVersion(entries[key].Version)
		mapping, served := t.catalog.Lookup(gvk)
		if !served {
			continue
		}
		live, err := t.client.Resource(mapping.Resource).Get(ctx, key.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", key, err)
		}
		if live.GetUID() != entries[key].UID || live.GetDeletionTimestamp() != nil || madeForAnother(live, inv) {
			continue
		}
		holds, err := t.holds(ctx, live, resources)
		if err != nil {
			return fmt.Errorf("look what %s still holds: %w", key, err)
		}
		if holds != "" {
			log.FromContext(ctx).Info("stays, since it still holds something", "object", key.String(), "holds", holds)
			continue
		}
		if err := t.deleteObject(ctx, inv, mapping.Resource, live); err != nil {
			return err
		}
	}
	return nil
}

// namespaced lists the resources that namespaces can hold.
type namespaced func() ([]*metav1.APIResourceList, error)

// holds names something that is still in a Namespace or of a definition; empty where there is nothing.
func (t *teardown) holds(ctx context.Context, live *unstructured.Unstructured, resources namespaced) (string, error) {
	if live.GetKind() == "Namespace" {
		return t.inNamespace(ctx, live.GetName(), resources)
	}
	group, _, _ := unstructured.NestedString(live.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(live.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(live.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if name, _ := version["name"].(string); version["served"] == true {
			return t.first(ctx, schema.GroupVersionResource{Group: group, Version: name, Resource: plural}, "")
		}
	}
	return "", nil // Of one that is not served there may be objects, but nobody can reach them.
}

// inNamespace names something in a namespace. What cannot be looked at counts as something.
func (t *teardown) inNamespace(ctx context.Context, namespace string, resources namespaced) (string, error) {
	lists, err := resources()
	if err != nil {
		return "what the cluster serves is not known in full: " + err.Error(), nil
	}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || version.Group == "metrics.k8s.io" {
			continue
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			if !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "delete") {
				continue
			}
			if name, err := t.first(ctx, version.WithResource(r.Name), namespace); err != nil || name != "" {
				return name, err
			}
		}
	}
	return "", nil
}

// first names an object of a resource that somebody would miss.
func (t *teardown) first(ctx context.Context, resource schema.GroupVersionResource, namespace string) (string, error) {
	options := metav1.ListOptions{Limit: 250}
	for {
		list, err := t.metadata.Resource(resource).Namespace(namespace).List(ctx, options)
		switch {
		case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
			return "", nil
		case apierrors.IsForbidden(err):
			return resource.Resource + ", which may not be listed", nil
		case err != nil:
			return "", fmt.Errorf("list %s: %w", resource, err)
		}
		for i := range list.Items {
			if o := &list.Items[i]; namespace == "" || !incidental(resource.Resource, o) {
				return resource.Resource + " " + o.Name, nil
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return "", nil
		}
	}
}

// incidental says that an object of a namespace is there by itself, or goes with another one.
func incidental(resource string, o *metav1.PartialObjectMetadata) bool {
	if len(o.OwnerReferences) > 0 || o.DeletionTimestamp != nil {
		return true
	}
	switch resource {
	case "events", "endpoints", "leases":
		return true
	case "serviceaccounts":
		return o.Name == "default"
	case "configmaps":
		return slices.Contains([]string{"kube-root-ca.crt", "openshift-service-ca.crt", "istio-ca-root-cert"}, o.Name)
	}
	return false
}
