package engine

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

// retainedObjects deletes the definitions and Namespaces of an Inventory that had to outlive their stack (invariant 5), when what comes
// after them is gone. A definition of which there is a custom resource stays, and so does a Namespace that holds what others
// made, the namespace of the custom resource, what another stack lists, and what is to be retained or was adopted. What is not
// settled yet is asked for again with growing pauses; after the timeout of a gate it counts as that of others. again is the
// pause; zero when all is decided.
func (t *teardown) retainedObjects(ctx context.Context, inv *keeper.Inventory) (again time.Duration, err error) {
	// The same for all Namespaces.
	resources := sync.OnceValues(t.disco.ServerPreferredNamespacedResources)
	kept, waits := map[*unstructured.Unstructured]string{}, ""
	for _, key := range outlasting(inv) {
		mapping, served := t.catalog.Lookup(key.WithVersion(key.version))
		if !served {
			continue
		}
		live, err := t.client.Resource(mapping.Resource).Get(ctx, key.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", key, err)
		}
		if live.GetUID() != key.uid || live.GetDeletionTimestamp() != nil || live.GetAnnotations()[keeper.AdoptedAnnotation] != "" ||
			live.GetAnnotations()[keeper.OwnerAnnotation] != inv.Annotations[keeper.OwnerAnnotation] {
			continue
		}
		stays, unsettled := t.listedElsewhere(key.Key, inv), ""
		if stays == "" {
			stays, unsettled = t.holds(ctx, inv, live, resources)
		}
		switch {
		case stays != "":
			kept[live] = stays
		case unsettled != "":
			kept[live], waits = unsettled, key.String()+" holds "+unsettled
		default:
			// Right after it was looked at, and only as it was read before.
			version := live.GetResourceVersion()
			if err := t.deleteObject(ctx, inv, mapping.Resource, live, &version); err != nil {
				return 0, err
			}
		}
	}
	if waits != "" {
		if again = t.pause(string(inv.Spec.Owner.UID)); again > 0 {
			log.FromContext(ctx).Info("teardown waits for what is not settled yet", "waitingFor", waits)
			return again, nil
		}
	}
	for live, holds := range kept {
		log.FromContext(ctx).Info("stays, since it still holds something", "object", plan.KeyOf(live).String(), "holds", holds)
		t.recorder.Eventf(live, nil, corev1.EventTypeNormal, "Kept", "Teardown",
			"%s was deleted; this stays, since it still holds something: %s", inv.Annotations[keeper.OwnerAnnotation], holds)
	}
	return 0, nil
}

// outlasts is an object that outlives its stack.
type outlasts struct {
	plan.Key
	uid     types.UID
	version string
}

// outlasting are the objects of an Inventory that outlive its stack and are to go when they hold nothing: definitions, and then
// Namespaces, which hold custom resources.
func outlasting(inv *keeper.Inventory) []outlasts {
	var out []outlasts
	for key, e := range entriesOf([]*keeper.Inventory{inv}) {
		own := key.Kind == "Namespace" && key.Name == inv.Spec.Owner.Namespace
		if plan.OutlivesAlways(key) && e.Policy == "" && e.UID != "" && !own {
			out = append(out, outlasts{key, e.UID, e.Version})
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].String() < out[j].String() })
	return out
}

// maxPause is the longest pause before a Namespace is looked at again.
const maxPause = time.Minute

// pause is for how long what is not settled is left alone: as long as it has lasted until now. Zero when long enough.
func (t *teardown) pause(ownerUID string) time.Duration {
	rest := t.holdsBack(ownerUID)
	return min(rest, max(plan.DefaultGateTimeout-rest, time.Second), maxPause)
}

// listedElsewhere names another custom resource that has an object in its Inventories.
func (t *teardown) listedElsewhere(key plan.Key, inv *keeper.Inventory) string {
	for _, o := range t.informers.ListResources(inventoryGVK.GroupKind(), "") {
		other, ok := o.(*keeper.Inventory)
		if !ok || other.Spec.Owner.UID == inv.Spec.Owner.UID {
			continue
		}
		for _, e := range other.Spec.Entries {
			if keyOf(e) == key {
				return "what " + other.Annotations[keeper.OwnerAnnotation] + " declares"
			}
		}
	}
	return ""
}

// namespaced lists the resources that namespaces can hold.
type namespaced func() ([]*metav1.APIResourceList, error)

// holds names what others would miss in a Namespace or of a definition, or else what is not settled yet.
func (t *teardown) holds(
	ctx context.Context, inv *keeper.Inventory, live *unstructured.Unstructured, resources namespaced,
) (stays, unsettled string) {
	if live.GetKind() == "Namespace" {
		return t.inNamespace(ctx, inv, live.GetName(), resources)
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
		all, err := t.list(ctx, schema.GroupVersionResource{Group: group, Version: name, Resource: plural}, "", true)
		if err != nil {
			return unreadable(err)
		}
		for _, c := range all {
			if c.DeletionTimestamp == nil && !t.controls(inv, c.PartialObjectMetadata) {
				return c.String(), ""
			}
			unsettled = c.String()
		}
		return "", unsettled
	}
	return "custom resources in versions that are not served", ""
}

// inNamespace judges what is in a Namespace. What cannot be looked at is not settled.
func (t *teardown) inNamespace(ctx context.Context, inv *keeper.Inventory, namespace string, resources namespaced) (stays, unsettled string) {
	lists, err := resources()
	if err != nil {
		return "", "what the cluster serves, which is not known in full: " + err.Error()
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
	// Claims last: what is made while the others are listed is missed the more the earlier it was looked for.
	slices.SortStableFunc(listed, func(a, b schema.GroupVersionResource) int { return rankOf(a) - rankOf(b) })
	contents := &namespaceContents{
		own:        func(o *metav1.PartialObjectMetadata) bool { return t.controls(inv, o) },
		namespaced: func(gk schema.GroupKind) bool { return kinds[gk] },
	}
	for _, resource := range listed {
		some, err := t.list(ctx, resource, namespace, false)
		if err != nil {
			return unreadable(err)
		}
		contents.all = append(contents.all, some...)
	}
	return contents.judge()
}

// unreadable judges what cannot be listed: a right does not come back by itself, a server may.
func unreadable(err error) (stays, unsettled string) {
	if apierrors.IsForbidden(err) {
		return err.Error(), ""
	}
	return "", err.Error()
}

// rankOf orders what is listed.
func rankOf(r schema.GroupVersionResource) int {
	if r.GroupResource() == (schema.GroupResource{Resource: "persistentvolumeclaims"}) {
		return 1
	}
	return 0
}

// list reads the objects of a resource, of all namespaces where none is named. Those of an API that is not served any more are
// gone with its definition; there says that the definition is there, so that they are not.
func (t *teardown) list(ctx context.Context, resource schema.GroupVersionResource, namespace string, there bool) ([]occupant, error) {
	var out []occupant
	options := metav1.ListOptions{Limit: 250}
	for {
		list, err := t.metadata.Resource(resource).Namespace(namespace).List(ctx, options)
		switch {
		case !there && (apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("%s, which cannot be listed: %w", resource.GroupResource(), err)
		}
		for i := range list.Items {
			out = append(out, occupant{resource.GroupResource(), &list.Items[i]})
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return out, nil
		}
	}
}

// controls says that an object belongs to the stack of an Inventory, and goes with it: its marks say so, and its controller is
// an Inventory, but that of no newer custom resource of the same name.
func (t *teardown) controls(inv *keeper.Inventory, o *metav1.PartialObjectMetadata) bool {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil || ref.APIVersion != keeper.GroupVersion.String() || ref.Kind != inventoryGVK.Kind ||
		o.Labels[keeper.StackLabel] != inv.Labels[keeper.StackLabel] ||
		o.Annotations[keeper.OwnerAnnotation] != inv.Annotations[keeper.OwnerAnnotation] {
		return false
	}
	other, known := t.get(ref.Name)
	return !known || other.Spec.Owner.UID == inv.Spec.Owner.UID
}
