package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/parallel"
)

var inventoryGVK = keeper.GroupVersion.WithKind("Inventory")

// inventories keeps the Inventories of all controllers (invariant 3): written before the objects they list, deleted stage by stage
// once their custom resource is gone.
type inventories struct {
	*Engine
	queue *queue

	mu sync.Mutex
	// written holds Inventories as our last write left them (invariant 12), by name.
	written map[string]*keeper.Inventory
	// heldSince is since when an object of a deleted Inventory holds back the next stage, by owner UID.
	heldSince map[string]time.Time
	// swept are the UIDs of owners whose webhooks and APIServices were deleted, ended those of owners that are gone, asked live.
	swept, ended map[string]bool
}

func newInventories(e *Engine) *inventories {
	return &inventories{
		Engine: e, written: map[string]*keeper.Inventory{}, heldSince: map[string]time.Time{}, swept: map[string]bool{}, ended: map[string]bool{},
	}
}

func (k *inventories) register() error {
	q, err := newController(k.mgr, "inventory", k.Clock, 4, &teardown{k}, k.Warm, k.enqueueAll)
	if err != nil {
		return fmt.Errorf("register the Inventory controller: %w", err)
	}
	k.queue = q
	k.informers.WatchResources(inventoryGVK, func(u *unstructured.Unstructured) (metav1.Object, error) {
		inv := &keeper.Inventory{}
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, inv)
		return inv, err
	}, k.changed, ownerUIDOf)
	return nil
}

// ownerUIDOf is the UID of the custom resource that an Inventory is of.
func ownerUIDOf(o metav1.Object) string {
	if inv, ok := o.(*keeper.Inventory); ok {
		return string(inv.Spec.Owner.UID)
	}
	return ""
}

// changed enqueues the teardown, which is keyed by the UID of the custom resource, and the custom resource itself.
func (k *inventories) changed(old, now metav1.Object, _ bool) {
	for _, o := range []metav1.Object{old, now} {
		inv, ok := o.(*keeper.Inventory)
		if !ok || inv == nil {
			continue
		}
		k.queue.add("", string(inv.Spec.Owner.UID))
		k.mu.Lock()
		if mine, ok := k.written[inv.Name]; ok && mine.UID == inv.UID && (now == nil || mine.ResourceVersion == inv.ResourceVersion) {
			delete(k.written, inv.Name) // The cache knows it now.
		}
		k.mu.Unlock()
		if now == nil {
			owner := inv.Spec.Owner
			k.Engine.enqueue(schema.GroupKind{Group: owner.Group, Kind: owner.Kind}, owner.Namespace, owner.Name)
		}
	}
}

func (k *inventories) enqueue(ownerUID string) {
	if ownerUID != "" {
		k.queue.add("", ownerUID)
	}
}

// enqueueStack enqueues the teardown of the Inventories that carry a stack's label.
func (k *inventories) enqueueStack(hash string) {
	for _, o := range k.informers.ListResources(inventoryGVK.GroupKind(), "") {
		if inv, ok := o.(*keeper.Inventory); ok && inv.Labels[keeper.StackLabel] == hash {
			k.queue.add("", string(inv.Spec.Owner.UID))
		}
	}
}

func (k *inventories) enqueueAll() {
	for _, o := range k.informers.ListResources(inventoryGVK.GroupKind(), "") {
		if inv, ok := o.(*keeper.Inventory); ok {
			k.queue.add("", string(inv.Spec.Owner.UID))
		}
	}
}

// get returns an Inventory as we know it best: cached, or our own later write.
func (k *inventories) get(name string) (*keeper.Inventory, bool) {
	// In this order: a write that is forgotten already is in the cache that is read after it.
	k.mu.Lock()
	mine, written := k.written[name]
	k.mu.Unlock()
	inv, version := k.cached(name)
	if written && observe.NewerVersion(mine.ResourceVersion, version) {
		return mine, true
	}
	if written {
		k.mu.Lock()
		if k.written[name] == mine {
			delete(k.written, name)
		}
		k.mu.Unlock()
	}
	return inv, inv != nil
}

// cached returns an Inventory as the cache has it, nil where it has none, and the version up to which the cache knows that.
func (k *inventories) cached(name string) (inv *keeper.Inventory, version string) {
	gk := inventoryGVK.GroupKind()
	// In this order: what the cache lacks after it had reached a version is gone by that version.
	version = k.informers.LastSyncResourceVersion(gk, "")
	o, ok := k.informers.Resource(gk, "", name)
	if !ok {
		return nil, version
	}
	inv, _ = o.(*keeper.Inventory)
	return inv, o.GetResourceVersion()
}

// of returns the Inventories of one custom resource, by stage.
func (k *inventories) of(ownerUID string) []*keeper.Inventory {
	names := map[string]bool{}
	// In this order: what is forgotten already is in the cache.
	k.mu.Lock()
	for name, inv := range k.written {
		if string(inv.Spec.Owner.UID) == ownerUID {
			names[name] = true
		}
	}
	k.mu.Unlock()
	for _, o := range k.informers.IndexedResources(inventoryGVK.GroupKind(), ownerUID) {
		names[o.GetName()] = true
	}
	var out []*keeper.Inventory
	for name := range names {
		if inv, ok := k.get(name); ok && inv.DeletionTimestamp == nil {
			out = append(out, inv)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Spec.Stage < out[j].Spec.Stage })
	return out
}

// needed says whether a stack has a child that its custom resource cannot own: cluster-scoped, or in another namespace.
func (k *inventories) needed(c *catalog.Catalog, stack plan.Stack, p plan.Plan) bool {
	if stack.Namespace == "" {
		return false // A cluster-scoped custom resource may own everything.
	}
	for _, stage := range p.Stages {
		for _, o := range stage.Objects {
			if o.Policy() != "" {
				continue
			}
			mapping, ok := c.Lookup(o.Desired.GroupVersionKind())
			if ok && (!mapping.Namespaced || o.Desired.GetNamespace() != stack.Namespace) {
				return true
			}
		}
	}
	return false
}

// incomplete says that a plan waits for more objects, and that users bring their kinds: one may be a child that the custom
// resource cannot own. An Inventory that comes only then would have every object written again for its new owner.
func (s *stacks[C, F]) incomplete(p plan.Plan) bool {
	return s.def.AnyChildren && slices.ContainsFunc(p.Problems, func(problem plan.Problem) bool { return problem.Class == plan.Waiting }) &&
		slices.ContainsFunc(p.Stages, func(stage plan.Stage) bool { return len(stage.Objects) > 0 })
}

// ensure makes one Inventory per stage and lists in it every object of the plan, before any of them is written. What
// an Inventory lists already stays listed until record says that it is gone. The Inventories of stages that the plan no
// longer has come last, since they still own what is to be pruned. Before the first write it asks whether that is sure.
func (k *inventories) ensure(
	ctx context.Context, stack plan.Stack, p plan.Plan, existing []*keeper.Inventory, confirm func() error,
) ([]*keeper.Inventory, error) {
	if !k.informers.ResourceSynced(inventoryGVK.GroupKind()) {
		return nil, errors.New("the watch on Inventories is not complete yet")
	}
	if _, served := k.catalog.Lookup(inventoryGVK); !served {
		return nil, errors.New("the CustomResourceDefinition of Inventory is not installed: run make install")
	}
	out := make([]*keeper.Inventory, len(p.Stages))
	failures := parallel.Each(ctx, parallelInventories, p.Stages, func(ctx context.Context, i int, stage plan.Stage) (err error) {
		out[i], err = k.ensureOne(ctx, stack, p.ActAs, i, stage, existing, confirm)
		return err
	})
	if err := cmp.Or(failures...); err != nil {
		return nil, err
	}
	for _, inv := range existing {
		if int(inv.Spec.Stage) >= len(p.Stages) {
			out = append(out, inv)
		}
	}
	return out, nil
}

// parallelInventories is how many Inventories of one custom resource are written at once.
const parallelInventories = 8

// ensureOne makes the Inventory of a stage, or adds to it what the plan has more.
func (k *inventories) ensureOne(
	ctx context.Context, stack plan.Stack, actAs string, i int, stage plan.Stage, existing []*keeper.Inventory, confirm func() error,
) (*keeper.Inventory, error) {
	name := inventoryName(stack, i)
	var have *keeper.Inventory
	for _, inv := range existing {
		if inv.Name == name {
			have = inv
		}
	}
	want := union(have, stage)
	if have != nil && len(want) == len(have.Spec.Entries) && have.Spec.Impersonate == actAs {
		return have, nil
	}
	if err := confirm(); err != nil {
		return nil, err
	}
	if have == nil {
		return k.create(ctx, stack, name, i, actAs, want)
	}
	next := have.DeepCopy()
	next.Spec.Entries, next.Spec.Impersonate = want, actAs
	return k.update(ctx, next)
}

// inventoryName is stable for a custom resource and holds its hash, so that two of the same name never share one.
func inventoryName(stack plan.Stack, stage int) string {
	kind := strings.ToLower(stack.GVK.Kind)
	if len(kind) > 200 {
		kind = kind[:200]
	}
	return fmt.Sprintf("%s-%s-%.8s-%d", kind, stack.Hash(), stack.UID, stage)
}

// union lists the objects of a stage in their order, and then what an Inventory lists beside them: what it holds in the end does not
// tell in how many passes the stage became complete.
func union(have *keeper.Inventory, stage plan.Stage) []keeper.InventoryEntry {
	var out []keeper.InventoryEntry
	before := map[plan.Key]keeper.InventoryEntry{}
	if have != nil {
		for _, e := range have.Spec.Entries {
			before[keyOf(e)] = e
		}
	}
	planned := map[plan.Key]bool{}
	for _, o := range stage.Objects {
		if planned[o.Key()] {
			continue
		}
		planned[o.Key()] = true
		e, listed := before[o.Key()]
		if !listed {
			e.ObjectReference = keeper.ObjectReference{
				Group: o.Key().Group, Version: o.Desired.GroupVersionKind().Version, Kind: o.Key().Kind,
				Namespace: o.Key().Namespace, Name: o.Key().Name,
			}
			e.Policy = o.Policy()
		}
		out = append(out, e)
	}
	if have != nil {
		for _, e := range have.Spec.Entries {
			if !planned[keyOf(e)] {
				out = append(out, e)
			}
		}
	}
	return out
}

func (k *inventories) create(
	ctx context.Context, stack plan.Stack, name string, stage int, actAs string, objects []keeper.InventoryEntry,
) (*keeper.Inventory, error) {
	inv := &keeper.Inventory{
		TypeMeta: metav1.TypeMeta{APIVersion: keeper.GroupVersion.String(), Kind: "Inventory"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{keeper.ControllerLabel: stack.Controller, keeper.StackLabel: stack.Hash()},
			Annotations: map[string]string{keeper.OwnerAnnotation: stack.ID()},
		},
		Spec: keeper.InventorySpec{
			Owner: keeper.InventoryOwner{
				Group: stack.GVK.Group, Kind: stack.GVK.Kind, Namespace: stack.Namespace, Name: stack.Name, UID: stack.UID,
			},
			Stage:       int32(stage), //nolint:gosec // The number of stages is bounded by the Inventory's schema.
			Impersonate: actAs,
			Entries:     objects,
		},
	}
	u, err := toUnstructured(inv)
	if err != nil {
		return nil, err
	}
	resource, err := k.resource()
	if err != nil {
		return nil, err
	}
	out, err := k.client.Resource(resource).Create(ctx, u, metav1.CreateOptions{FieldManager: observe.FieldManager})
	if apierrors.IsAlreadyExists(err) {
		// Our own, created before a crash and not yet in the cache: its UID is part of the name.
		out, err = k.client.Resource(resource).Get(ctx, name, metav1.GetOptions{})
		if err == nil && out.GetDeletionTimestamp() != nil {
			err = fmt.Errorf("the Inventory %s is being deleted: waiting for it to be gone", name)
		}
	}
	if err != nil {
		return nil, err
	}
	k.metrics.write(plan.Key{GroupKind: inventoryGVK.GroupKind(), Name: name}, "Create", "Inventory")
	return k.keep(out)
}

// update writes an Inventory, guarded by its resourceVersion.
func (k *inventories) update(ctx context.Context, inv *keeper.Inventory, sub ...string) (*keeper.Inventory, error) {
	u, err := toUnstructured(inv)
	if err != nil {
		return nil, err
	}
	resource, err := k.resource()
	if err != nil {
		return nil, err
	}
	out, err := k.client.Resource(resource).Update(ctx, u, metav1.UpdateOptions{FieldManager: observe.FieldManager}, sub...)
	if err != nil {
		return nil, err
	}
	k.metrics.write(plan.Key{GroupKind: inventoryGVK.GroupKind(), Name: inv.Name}, "Apply", "Inventory")
	return k.keep(out)
}

func (k *inventories) resource() (schema.GroupVersionResource, error) {
	mapping, ok := k.catalog.Lookup(inventoryGVK)
	if !ok {
		return schema.GroupVersionResource{}, errors.New("the API of Inventory is not served")
	}
	return mapping.Resource, nil
}

// keep remembers what a write answered. An Inventory that was deleted while the answer was on its way fails the write: what it
// would own would go with it.
func (k *inventories) keep(u *unstructured.Unstructured) (*keeper.Inventory, error) {
	u.SetManagedFields(nil)
	inv := &keeper.Inventory{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, inv); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if cached, version := k.cached(inv.Name); cached == nil && !observe.NewerVersion(inv.ResourceVersion, version) {
		return nil, fmt.Errorf("the Inventory %s was deleted while it was written", inv.Name)
	}
	k.written[inv.Name] = inv
	return inv, nil
}

// record writes what the writes of a pass answered into the status of the Inventories, and takes off the list what is
// neither wanted nor there any more.
func (k *inventories) record(
	ctx context.Context, invs []*keeper.Inventory, stamped [][]plan.Stamped, entries []keeper.InventoryEntry,
) error {
	stageOf := map[plan.Key]int{}
	for i, stage := range stamped {
		for _, o := range stage {
			stageOf[o.Key] = i
		}
	}
	remembered := map[plan.Key]bool{}
	for _, e := range entries {
		remembered[keyOf(e)] = true
	}
	return cmp.Or(parallel.Each(ctx, parallelInventories, invs, func(ctx context.Context, i int, inv *keeper.Inventory) error {
		var spec, status []keeper.InventoryEntry
		listed := map[plan.Key]bool{}
		for _, e := range inv.Spec.Entries {
			at, wanted := stageOf[keyOf(e)]
			if wanted && at == i || !wanted && remembered[keyOf(e)] || k.owns(inv, keyOf(e)) {
				spec = append(spec, e)
				listed[keyOf(e)] = !wanted || at == i
			}
		}
		for _, e := range entries {
			if listed[keyOf(e)] {
				status = append(status, e)
			}
		}
		if i >= len(stamped) && len(spec) == 0 {
			return k.remove(ctx, inv)
		}
		return k.replace(ctx, inv, spec, status)
	})...)
}

// replace writes what an Inventory lists, as far as it changed.
func (k *inventories) replace(ctx context.Context, inv *keeper.Inventory, spec, status []keeper.InventoryEntry) error {
	next := inv.DeepCopy()
	var err error
	if len(spec) != len(inv.Spec.Entries) {
		next.Spec.Entries = spec
		if next, err = k.update(ctx, next); err != nil {
			return fmt.Errorf("write Inventory %s: %w", inv.Name, err)
		}
	}
	if !reflect.DeepEqual(next.Status.Entries, status) {
		next.Status.Entries = status
		if _, err = k.update(ctx, next, "status"); err != nil {
			return fmt.Errorf("write the status of Inventory %s: %w", inv.Name, err)
		}
	}
	return nil
}

// owns says that an object is there and that an Inventory is its controller.
func (k *inventories) owns(inv *keeper.Inventory, key plan.Key) bool {
	seen, ok := k.informers.Child(inv.Labels[keeper.ControllerLabel], key)
	if !ok {
		return false
	}
	ref := metav1.GetControllerOfNoCopy(&seen.ObjectMeta)
	return ref != nil && ref.UID == inv.UID
}

// remove deletes an Inventory by UID; the garbage collector deletes what it owns. A conflict is a failure like others: it need not
// mean that the UID is another's, and no event has to follow.
func (k *inventories) remove(ctx context.Context, inv *keeper.Inventory) error {
	resource, err := k.resource()
	if err != nil {
		return err
	}
	background := metav1.DeletePropagationBackground
	err = k.client.Resource(resource).Delete(ctx, inv.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &inv.UID}, PropagationPolicy: &background,
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Inventory %s: %w", inv.Name, err)
	}
	k.mu.Lock()
	delete(k.written, inv.Name)
	k.mu.Unlock()
	k.metrics.write(plan.Key{GroupKind: inventoryGVK.GroupKind(), Name: inv.Name}, "Delete", "Inventory")
	return nil
}

func ownerOf(inv *keeper.Inventory) plan.Owner {
	return plan.Owner{APIVersion: keeper.GroupVersion.String(), Kind: "Inventory", Name: inv.Name, UID: inv.UID}
}

func entriesOf(invs []*keeper.Inventory) map[plan.Key]keeper.InventoryEntry {
	out := map[plan.Key]keeper.InventoryEntry{}
	for _, inv := range invs {
		for _, e := range inv.Spec.Entries {
			out[keyOf(e)] = e
		}
		for _, e := range inv.Status.Entries {
			out[keyOf(e)] = e
		}
	}
	return out
}

func toUnstructured(o runtime.Object) (*unstructured.Unstructured, error) {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: m}, nil
}
