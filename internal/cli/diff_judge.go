package cli

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/inventory"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

// judged are the decisions about the objects of one custom resource, made by the engine's own judgement on what is live.
type judged struct {
	stack   plan.Stack
	owners  []plan.Owner
	actions []decide.Action
	// live are the objects as they are.
	live map[plan.Key]*unstructured.Unstructured
	// adopt says that objects which nobody owns may be adopted.
	adopt bool
	// previous is the operator that had the custom resource before, and mark how it marked its objects.
	previous controller.Previous
	mark     plan.Mark
	// owned says that the owners are known, so that owner references can be compared.
	owned bool
}

// judge reads what is live and lets the engine's judgement decide.
func (d *differ) judge(ctx context.Context, t *target, r rendered) (*judged, error) {
	s := &subject{controller: t.controller, namespace: r.stack.Namespace, name: r.stack.Name, live: t.admitted}
	c := &collector{cluster: d.cluster, namespace: r.stack.Namespace, only: s}
	inventories, err := d.inventoriesOf(ctx, c, t, r.stack)
	if err != nil {
		return nil, err
	}
	recorded := entriesOf(t.admitted, inventories)
	self := plan.Owner{
		APIVersion: r.stack.GVK.GroupVersion().String(), Kind: r.stack.GVK.Kind, Name: r.stack.Name, UID: r.stack.UID,
	}
	j := &judged{
		stack: r.stack, owners: []plan.Owner{self}, live: map[plan.Key]*unstructured.Unstructured{},
		adopt: t.admitted.GetAnnotations()[keeper.AdoptAnnotation] == "true",
		owned: t.admitted.GetResourceVersion() != "", previous: t.controller.Previous(), mark: r.plan.PreviousOwner,
	}
	for i := range inventories {
		j.owners = append(j.owners, plan.Owner{
			APIVersion: keeper.GroupVersion.String(), Kind: inventoryKind.Kind, Name: inventories[i].Name, UID: inventories[i].UID,
		})
	}
	lists := pointersTo(inventories)
	in := decide.Input{Stack: j.stack, Owners: j.owners, Prune: plan.MayPrune(r.plan.Problems), KeepRuns: len(r.plan.Problems) > 0}
	desired := map[plan.Key]bool{}
	for _, key := range r.plan.Keep {
		desired[key] = true
	}
	for i, stage := range r.plan.Stages {
		owner := self
		if i+1 < len(j.owners) {
			owner = j.owners[i+1]
		}
		if stage.Suspended {
			decide.KeepListed(lists, stage.Name, desired)
		}
		st := decide.Stage{Name: stage.Name, WaitHealthy: stage.WaitHealthy}
		for _, o := range stage.Objects {
			item, err := d.item(ctx, j, o, owner, i)
			if err != nil {
				return nil, err
			}
			if e, found := recorded[item.Key]; found {
				// The key is the operator's alone: what is recorded sealed cannot be compared.
				e = inventory.Open(digest.Key{}.Sealer(""), e, item.Digest, item.Observed)
				item.Known = &e
			}
			desired[item.Key] = true
			st.Items = append(st.Items, item)
		}
		in.Stages = append(in.Stages, st)
	}
	for i := range in.Stages {
		for k := range in.Stages[i].Items {
			in.Stages[i].Items[k].Waits = decide.ServerOf(in.Stages, in.Stages[i].Items[k])
		}
	}
	if in.Extras, err = d.extras(ctx, c, j, t, recorded, desired); err != nil {
		return nil, err
	}
	d.warnings = append(d.warnings, c.warnings...)
	j.actions = decide.Decide(in)
	decide.LeaveSuspended(r.plan.Stages, j.actions)
	decide.HoldPruned(r.plan.Stages, j.actions)
	// What an object waits for here has mostly come by the time that it is written.
	decide.HoldReplaced(decide.StagesThatKeep(r.plan.Stages, nil, r.plan.Problems), j.actions, lists)
	return j, nil
}

func pointersTo[T any](list []T) []*T {
	out := make([]*T, 0, len(list))
	for i := range list {
		out = append(out, &list[i])
	}
	return out
}

// item is one declared object with what is live under its name. The engine sees what carries its label alone; what
// stands under a child's name without it is met when the object is created.
func (d *differ) item(ctx context.Context, j *judged, o plan.Object, owner plan.Owner, stage int) (decide.Item, error) {
	stamped, err := plan.Stamp(digest.Key{}, o, j.stack, owner, stage)
	if err != nil {
		return decide.Item{}, err
	}
	item := decide.Item{Stamped: stamped, Synced: true}
	gvk := o.Desired.GroupVersionKind()
	mapping, err := d.lookup(gvk)
	if err != nil {
		return decide.Item{}, err
	}
	if item.Served = mapping != nil; !item.Served {
		return item, nil
	}
	if !o.Retain && len(j.owners) == 1 && mapping.Scope.Name() == "root" && j.stack.Namespace != "" ||
		!o.Retain && len(j.owners) == 1 && o.Desired.GetNamespace() != "" && o.Desired.GetNamespace() != j.stack.Namespace {
		// Inventories would own the objects, and they are not made yet.
		j.owned = false
	}
	live, err := d.live(ctx, gvk, o.Desired.GetNamespace(), o.Desired.GetName())
	if err != nil {
		return decide.Item{}, fmt.Errorf("%w; to compare an object you need the right to get it", err)
	}
	if live == nil {
		return item, nil
	}
	j.live[stamped.Key] = live
	if live.GetLabels()[keeper.ControllerLabel] == j.stack.Controller {
		item.Observed = observe.From(live, health.NeedsStatus(gvk.GroupKind()))
		item.Adopt = j.adopt && metav1.GetControllerOfNoCopy(live) == nil
	}
	return item, nil
}

// extras are the objects that MLKeeper made for the custom resource and that it would not declare any more.
func (d *differ) extras(
	ctx context.Context, c *collector, j *judged, t *target, recorded map[plan.Key]keeper.InventoryEntry, desired map[plan.Key]bool,
) ([]decide.Extra, error) {
	entries := make([]keeper.InventoryEntry, 0, len(recorded))
	for _, e := range recorded {
		entries = append(entries, e)
	}
	var out []decide.Extra
	taken := map[plan.Key]bool{}
	for _, u := range c.children(ctx, t.controller, entries).objects[j.stack.Hash()] {
		key := plan.KeyOf(u)
		if desired[key] || taken[key] || u.GetAnnotations()[keeper.OwnerAnnotation] != j.stack.ID() {
			continue
		}
		taken[key] = true
		j.live[key] = u
		out = append(out, decide.Extra{Entry: recorded[key], Observed: observe.From(u, false)})
	}
	for _, e := range entries {
		key := plan.KeyOfEntry(e)
		if desired[key] || taken[key] || e.UID == "" {
			continue
		}
		// It is gone, or somebody took its labels off.
		live, err := d.live(ctx, schema.GroupVersionKind{Group: e.Group, Version: e.Version, Kind: e.Kind}, e.Namespace, e.Name)
		if err != nil {
			return nil, err
		}
		if live == nil || live.GetUID() != e.UID {
			continue
		}
		j.live[key] = live
		out = append(out, decide.Extra{Entry: e})
	}
	return out, nil
}

// entriesOf is what MLKeeper remembers of its writes: in the status of the custom resource, or in its Inventories.
func entriesOf(u *unstructured.Unstructured, inventories []keeper.Inventory) map[plan.Key]keeper.InventoryEntry {
	out := map[plan.Key]keeper.InventoryEntry{}
	var status struct {
		Inventory keeper.ResourceInventory `json:"inventory"`
	}
	if raw, _, _ := unstructured.NestedMap(u.Object, "status"); raw != nil {
		// An inventory that cannot be read is none: then everything is compared field by field.
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"inventory": raw["inventory"]}, &status)
	}
	for _, e := range status.Inventory.Entries {
		out[plan.KeyOfEntry(e)] = e
	}
	for i := range inventories {
		for _, e := range inventories[i].Spec.Entries {
			out[plan.KeyOfEntry(e)] = e
		}
		for _, e := range inventories[i].Status.Entries {
			out[plan.KeyOfEntry(e)] = e
		}
	}
	return out
}
