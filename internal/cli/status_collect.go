package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
)

// healthMissing is the health of an object that MLKeeper wrote and that is not there.
const healthMissing = "Missing"

var definitionResource = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

var inventoryKind = keeper.GroupVersion.WithKind("Inventory")

// collector reads the stacks of a namespace, or of all, or one stack alone.
type collector struct {
	*cluster
	namespace string
	// only restricts it to one custom resource; then what belongs to it is listed wherever it is.
	only *subject
	// whole are the objects of that one custom resource as they were read.
	whole    map[plan.Key]*unstructured.Unstructured
	warnings []string
}

func (c *collector) warn(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(c.warnings, text) {
		c.warnings = append(c.warnings, text)
	}
}

// collect reads the stacks of the controllers. It fails when the cluster serves none of their kinds; what else cannot be read
// becomes a warning.
func (c *collector) collect(ctx context.Context, controllers []controller.Any) (*StatusReport, error) {
	report := &StatusReport{Stacks: []StackStatus{}, Warnings: []string{}}
	var unserved []string
	var refused []error
	for _, r := range controllers {
		mapping, err := c.lookup(r.GVK())
		if err != nil {
			return nil, err
		}
		if mapping == nil {
			unserved = append(unserved, r.GVK().GroupKind().String())
			continue
		}
		resources, err := c.resources(ctx, mapping)
		if apierrors.IsForbidden(err) {
			refused = append(refused, c.explain(mapping.Resource.Resource, err))
			continue
		}
		if err != nil {
			return nil, c.explain(mapping.Resource.Resource, err)
		}
		c.warnForeign(ctx, mapping.Resource.GroupResource().String())
		if len(resources) == 0 {
			continue
		}
		inventories := c.inventories(ctx)
		expected := make([][]keeper.InventoryEntry, len(resources))
		for i, u := range resources {
			expected[i] = c.expected(u, stackOf(r, u), inventories.listed())
		}
		children := c.children(ctx, r, slices.Concat(expected...))
		for i, u := range resources {
			report.Stacks = append(report.Stacks, c.stack(r, u, children, expected[i]))
		}
	}
	if len(unserved) == len(controllers) {
		return nil, fmt.Errorf("the cluster serves none of these kinds: %s; install the CustomResourceDefinitions with "+
			"`make install` or `kubectl apply --server-side -k config/crd`", strings.Join(unserved, ", "))
	}
	if len(unserved)+len(refused) == len(controllers) {
		return nil, errors.Join(refused...)
	}
	report.refused = len(refused) > 0
	for _, err := range refused {
		c.warn("%v", err)
	}
	for _, kind := range unserved {
		c.warn("the cluster does not serve %s; its CustomResourceDefinition is not installed", kind)
	}
	if c.warnings != nil {
		report.Warnings = c.warnings
	}
	slices.SortStableFunc(report.Stacks, func(a, b StackStatus) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return report, nil
}

// warnForeign warns of a definition of another operator. Who may not read definitions is told nothing; readiness and the log
// of the manager tell it as well.
func (c *collector) warnForeign(ctx context.Context, name string) {
	definition, err := c.dynamic.Resource(definitionResource).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return
	}
	if converter := catalog.ConversionWebhook(definition); converter != "" {
		c.warn("%v", catalog.ForeignCRDError(name, converter))
	}
}

// resources lists the custom resources of a kind, or gives the one that is asked for.
func (c *collector) resources(ctx context.Context, mapping *meta.RESTMapping) ([]*unstructured.Unstructured, error) {
	if c.only != nil {
		return []*unstructured.Unstructured{c.only.live}, nil
	}
	return c.list(ctx, mapping, c.namespace, metav1.ListOptions{})
}

func (c *collector) explain(resource string, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("list %s: %w; request the right to list them, or name a namespace with -n", resource, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("list %s: %w; log in again", resource, err)
	}
	return fmt.Errorf("list %s: %w", resource, err)
}

// found are the objects of a controller.
type found struct {
	// objects are by the stack label.
	objects map[string][]*unstructured.Unstructured
	// unread are the kinds that could not be listed, unserved those that the cluster does not know.
	unread, unserved map[schema.GroupKind]bool
}

// children lists what the controller made: whole objects where the health needs them, and metadata for the rest. Besides the
// kinds that the controller names, those that its inventories name are listed.
func (c *collector) children(ctx context.Context, r controller.Any, entries []keeper.InventoryEntry) found {
	out := found{
		objects: map[string][]*unstructured.Unstructured{},
		unread:  map[schema.GroupKind]bool{}, unserved: map[schema.GroupKind]bool{},
	}
	listed := map[schema.GroupKind]bool{}
	for _, gvk := range childKinds(r, entries) {
		gk := gvk.GroupKind()
		if listed[gk] {
			continue
		}
		listed[gk] = true
		mapping, err := c.lookup(gvk)
		if err == nil && mapping == nil {
			out.unserved[gk] = true
			continue
		}
		var all []*unstructured.Unstructured
		if err == nil {
			all, err = c.childrenOf(ctx, r, mapping, entries)
		}
		if err != nil {
			out.unread[gk] = true
			c.warn("%s are left out: %v", resourceOf(gvk), err)
			continue
		}
		for _, u := range all {
			stack := u.GetLabels()[keeper.StackLabel]
			out.objects[stack] = append(out.objects[stack], u)
		}
	}
	return out
}

// childKinds are the kinds that a controller names, and those that inventories name.
func childKinds(r controller.Any, entries []keeper.InventoryEntry) []schema.GroupVersionKind {
	kinds := slices.Clone(r.Children())
	for i := range entries {
		kinds = append(kinds, schema.GroupVersionKind{Group: entries[i].Group, Version: entries[i].Version, Kind: entries[i].Kind})
	}
	return kinds
}

// childrenOf lists the children of one kind: whole objects where the health needs them, and metadata for the rest.
func (c *collector) childrenOf(
	ctx context.Context, r controller.Any, mapping *meta.RESTMapping, entries []keeper.InventoryEntry,
) ([]*unstructured.Unstructured, error) {
	list := c.listMetadata
	if health.NeedsStatus(mapping.GroupVersionKind.GroupKind()) {
		list = c.list
	}
	if c.only == nil {
		selector := keeper.ControllerLabel + "=" + r.Name()
		if _, unknown := r.(uncontrolled); unknown {
			selector = keeper.StackLabel
		}
		return list(ctx, mapping, c.namespace, metav1.ListOptions{LabelSelector: selector})
	}
	var out []*unstructured.Unstructured
	for _, namespace := range namespacesOf(c.only, mapping, entries) {
		all, err := list(ctx, mapping, namespace, metav1.ListOptions{
			LabelSelector: keeper.StackLabel + "=" + c.only.stack().Hash(),
		})
		if err != nil {
			return nil, err
		}
		out = append(out, all...)
	}
	return out, nil
}

// namespacesOf are the namespaces in which one stack may have children of a kind: its own, and those that are recorded.
func namespacesOf(s *subject, mapping *meta.RESTMapping, entries []keeper.InventoryEntry) []string {
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return []string{""}
	}
	out := []string{s.namespace}
	for i := range entries {
		if entries[i].Kind == mapping.GroupVersionKind.Kind && entries[i].Group == mapping.GroupVersionKind.Group &&
			!slices.Contains(out, entries[i].Namespace) {
			out = append(out, entries[i].Namespace)
		}
	}
	return out
}

// byOwner are Inventories by the custom resource that they belong to.
type byOwner map[keeper.InventoryOwner][]keeper.Inventory

// listed are the objects that the Inventories list.
func (b byOwner) listed() map[keeper.InventoryOwner][]keeper.InventoryEntry {
	out := map[keeper.InventoryOwner][]keeper.InventoryEntry{}
	for owner, all := range b {
		for i := range all {
			out[owner] = append(out[owner], all[i].Spec.Entries...)
		}
	}
	return out
}

// inventories lists what the Inventories say should be there, in the order of the stages.
func (c *collector) inventories(ctx context.Context) byOwner {
	mapping, err := c.lookup(inventoryKind)
	if err != nil || mapping == nil {
		c.warn("Inventories are left out: the cluster does not serve them; install the CustomResourceDefinitions")
		return nil
	}
	options := metav1.ListOptions{}
	if c.only != nil {
		options.LabelSelector = keeper.StackLabel + "=" + c.only.stack().Hash()
	}
	all, err := c.list(ctx, mapping, "", options)
	if err != nil {
		c.warn("Inventories are left out: %v", err)
		return nil
	}
	return c.decodeInventories(all)
}

func (c *collector) decodeInventories(all []*unstructured.Unstructured) byOwner {
	out := byOwner{}
	for _, u := range all {
		var i keeper.Inventory
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &i); err != nil {
			c.warn("Inventory %s is left out: %v", u.GetName(), err)
			continue
		}
		out[i.Spec.Owner] = append(out[i.Spec.Owner], i)
	}
	for _, stages := range out {
		slices.SortFunc(stages, func(a, b keeper.Inventory) int {
			return cmp.Or(cmp.Compare(a.Spec.Stage, b.Spec.Stage), cmp.Compare(a.Spec.Part, b.Spec.Part))
		})
	}
	return out
}

// inventoryOwner is what the Inventories of a stack name as their owner.
func inventoryOwner(id plan.Stack) keeper.InventoryOwner {
	return keeper.InventoryOwner{
		Group: id.GVK.Group, Kind: id.GVK.Kind, Namespace: id.Namespace, Name: id.Name, UID: id.UID,
	}
}

// stackOf is the stack of a custom resource.
func stackOf(r controller.Any, u *unstructured.Unstructured) plan.Stack {
	return plan.Stack{Controller: r.Name(), GVK: r.GVK(), Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID()}
}

// isSuspended says that the annotation suspends a custom resource, or the field of kinds that have one.
func isSuspended(u *unstructured.Unstructured) bool {
	field, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend")
	return field || u.GetAnnotations()[keeper.SuspendAnnotation] == "true"
}

// stack describes one custom resource.
func (c *collector) stack(r controller.Any, u *unstructured.Unstructured, children found, expected []keeper.InventoryEntry) StackStatus {
	out := StackStatus{
		Controller: r.Name(), APIVersion: r.GVK().GroupVersion().String(), Kind: r.GVK().Kind,
		Namespace: u.GetNamespace(), Name: u.GetName(), UID: string(u.GetUID()), Created: u.GetCreationTimestamp().UTC(),
		Ready: "Unknown", Reason: "NotReconciled", Message: "no manager has reported on it yet; check that one runs",
		Suspended: isSuspended(u),
		Deleting:  u.GetDeletionTimestamp() != nil,
		Objects:   c.objects(stackOf(r, u), children, expected),
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, item := range conditions {
		condition, _ := item.(map[string]any)
		text := func(field string) string {
			s, _ := condition[field].(string)
			return s
		}
		switch text("type") {
		case "Ready":
			out.Ready, out.Reason, out.Message = text("status"), text("reason"), text("message")
		case "Stalled":
			out.Stalled = text("status") == string(metav1.ConditionTrue)
		}
	}
	generation, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	out.Observed = generation == u.GetGeneration()
	return out
}

// objects are what belongs to a stack, and what should.
func (c *collector) objects(id plan.Stack, children found, expected []keeper.InventoryEntry) []ObjectStatus {
	out := []ObjectStatus{}
	there := map[plan.Key]bool{}
	for _, o := range children.objects[id.Hash()] {
		// The label is a short hash; the annotation is the whole name.
		if o.GetAnnotations()[keeper.OwnerAnnotation] != id.ID() || there[plan.KeyOf(o)] {
			continue
		}
		there[plan.KeyOf(o)] = true
		if c.only != nil {
			c.keep(o)
		}
		result := health.Of(o)
		out = append(out, ObjectStatus{
			APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(),
			Health: string(result.Status), Reason: result.Reason, Message: result.Message,
		})
	}
	for _, e := range expected {
		gk := schema.GroupKind{Group: e.Group, Kind: e.Kind}
		key := plan.Key{GroupKind: gk, Namespace: e.Namespace, Name: e.Name}
		// What lies outside of the namespace asked for was not listed.
		foreign := c.only == nil && c.namespace != "" && e.Namespace != "" && e.Namespace != c.namespace
		if there[key] || children.unread[gk] || foreign || e.Completed {
			continue
		}
		there[key] = true
		missing := ObjectStatus{
			APIVersion: schema.GroupVersion{Group: e.Group, Version: e.Version}.String(), Kind: e.Kind,
			Namespace: e.Namespace, Name: e.Name,
			Health: healthMissing, Reason: "NotFound", Message: "MLKeeper created it, but it does not exist or its labels were removed.",
		}
		if children.unserved[gk] {
			missing.Reason, missing.Message = "NotServed", "MLKeeper created it, but the cluster no longer serves its kind."
		}
		out = append(out, missing)
	}
	slices.SortStableFunc(out, func(a, b ObjectStatus) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// keep remembers an object as it was read.
func (c *collector) keep(o *unstructured.Unstructured) {
	if c.whole == nil {
		c.whole = map[plan.Key]*unstructured.Unstructured{}
	}
	c.whole[plan.KeyOf(o)] = o
}

// expected is what the inventory in the status and the Inventories say should be there.
func (c *collector) expected(
	u *unstructured.Unstructured, id plan.Stack, inventories map[keeper.InventoryOwner][]keeper.InventoryEntry,
) []keeper.InventoryEntry {
	out := slices.Clone(inventories[inventoryOwner(id)])
	var status struct {
		Inventory keeper.ResourceInventory `json:"inventory"`
	}
	raw, _, _ := unstructured.NestedMap(u.Object, "status")
	if raw == nil {
		return out
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"inventory": raw["inventory"]}, &status); err != nil {
		c.warn("the inventory of %s cannot be read: %v", id.ID(), err)
		return out
	}
	return append(out, status.Inventory.Entries...)
}
