package finalize

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/inventory"
)

// discover returns the resources that Namespaces can contain.
type discover func() ([]*metav1.APIResourceList, error)

// contentOf reads what a Namespace contains, or the custom resources of a definition.
func (f *Finalizer) contentOf(ctx context.Context, inv *keeper.Inventory, live *unstructured.Unstructured, resources discover) content {
	if live.GetKind() == "Namespace" {
		return f.contentOfNamespace(ctx, inv, live.GetName(), resources)
	}
	group, _, _ := unstructured.NestedString(live.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(live.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(live.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		name, _ := version["name"].(string)
		if version["served"] != true {
			continue
		}
		objects, err := f.list(ctx, schema.GroupVersionResource{Group: group, Version: name, Resource: plural}, "", true)
		if err != nil {
			return unreadable(err)
		}
		var out content
		for _, o := range objects {
			if o.DeletionTimestamp == nil && !f.belongsTo(inv, o.PartialObjectMetadata) {
				return contentOfOthers(o.String())
			}
			out.undecided = o.String()
		}
		return out
	}
	return contentOfOthers("custom resources in versions that are not served")
}

// listings is how often a Namespace is listed before it counts as empty. What a client applies while the resources are listed one after the
// other may be of one that was listed before: the last listing has it.
const listings = 2

// contentOfNamespace lists everything in a Namespace. A resource that cannot be listed leaves the content undecided.
func (f *Finalizer) contentOfNamespace(ctx context.Context, inv *keeper.Inventory, namespace string, resources discover) content {
	lists, err := resources()
	if err != nil {
		return content{undecided: "what the cluster serves, which is not known in full: " + err.Error()}
	}
	kinds := map[schema.GroupKind]bool{}
	var listed []schema.GroupVersionResource
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			kinds[version.WithKind(r.Kind).GroupKind()] = true
			if version.Group != "metrics.k8s.io" && slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "delete") {
				listed = append(listed, version.WithResource(r.Name))
			}
		}
	}
	// Claims last: an object that is created during the listing is missed more likely the earlier its resource was listed.
	slices.SortStableFunc(listed, func(a, b schema.GroupVersionResource) int { return rankOf(a) - rankOf(b) })
	for range listings {
		contents := &namespaceContents{
			ofStack:    func(o *metav1.PartialObjectMetadata) bool { return f.belongsTo(inv, o) },
			namespaced: func(gk schema.GroupKind) bool { return kinds[gk] },
		}
		if contents.objects, err = f.listAll(ctx, listed, namespace); err != nil {
			return unreadable(err)
		}
		if found := contents.classify(); !found.empty() {
			return found
		}
	}
	return content{}
}

// listAll reads the objects of resources in a namespace, one resource after the other.
func (f *Finalizer) listAll(ctx context.Context, resources []schema.GroupVersionResource, namespace string) ([]object, error) {
	var out []object
	for _, resource := range resources {
		objects, err := f.list(ctx, resource, namespace, false)
		if err != nil {
			return nil, err
		}
		out = append(out, objects...)
	}
	return out, nil
}

// unreadable classifies content that cannot be listed: a missing right is permanent, a failing server is not.
func unreadable(err error) content {
	if apierrors.IsForbidden(err) {
		return contentOfOthers(err.Error())
	}
	return content{undecided: err.Error()}
}

// rankOf is the order of the listing.
func rankOf(r schema.GroupVersionResource) int {
	if r.GroupResource() == claims {
		return 1
	}
	return 0
}

// list reads the objects of a resource in a namespace, or in all where none is named. The objects of an API that is no longer served
// are gone with its definition; required says that the definition exists, so that they are not.
func (f *Finalizer) list(ctx context.Context, resource schema.GroupVersionResource, namespace string, required bool) ([]object, error) {
	var out []object
	options := metav1.ListOptions{Limit: 250}
	for {
		list, err := f.Metadata.Resource(resource).Namespace(namespace).List(ctx, options)
		switch {
		case !required && (apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("%s, which cannot be listed: %w", resource.GroupResource(), err)
		}
		for i := range list.Items {
			out = append(out, object{resource.GroupResource(), &list.Items[i]})
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return out, nil
		}
	}
}

// belongsTo reports whether an object belongs to the stack of an Inventory and is deleted with it: it has the stack's ownership
// metadata, and an Inventory as its controller that is not one of a newer custom resource of the same name.
func (f *Finalizer) belongsTo(inv *keeper.Inventory, o *metav1.PartialObjectMetadata) bool {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil || ref.APIVersion != keeper.GroupVersion.String() || ref.Kind != inventory.GVK.Kind ||
		o.Labels[keeper.StackLabel] != inv.Labels[keeper.StackLabel] ||
		o.Annotations[keeper.OwnerAnnotation] != inv.Annotations[keeper.OwnerAnnotation] {
		return false
	}
	other, known := f.Inventories.Get(ref.Name)
	return !known || other.Spec.Owner.UID == inv.Spec.Owner.UID
}
