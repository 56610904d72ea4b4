package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/finalize"
	"mlkeeper.dev/internal/engine/inventory"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/retry"
)

// finalizeWorkers is the number of deleted custom resources that are finalized at once.
const finalizeWorkers = 4

// watchInventories makes the store of Inventories and the controller that finalizes deleted custom resources, and watches Inventories.
func (e *Engine) watchInventories() error {
	e.inventories = inventory.New(inventory.Options{Client: e.client, Catalog: e.catalog, Cache: e.informers, Count: e.metrics.write})
	finalizer := finalize.New(finalize.Options{
		Client: e.client, As: e.actor.Acting, Metadata: e.metadata, NamespacedResources: e.disco.ServerPreferredNamespacedResources,
		Catalog: e.catalog, Inventories: e.inventories, Children: e.informers, Owner: e.inventoryOwner,
		WatchChildren: e.watchFinalization, StopWatching: e.finalized,
		Recorder: e.recorder, Clock: e.Clock, Count: e.metrics.write,
	})
	q, err := newController(e, "inventory", finalizeWorkers, finalizer, e.enqueueFinalizations)
	if err != nil {
		return fmt.Errorf("register the Inventory controller: %w", err)
	}
	e.finalizations = q
	e.informers.WatchResources(inventory.GVK, inventory.Decode, e.inventoryChanged, inventory.OwnerUID)
	return nil
}

// inventoryOwner returns what the caches know of the custom resource of an Inventory.
func (e *Engine) inventoryOwner(ref keeper.InventoryOwner) (finalize.Owner, bool) {
	r, ok := e.controller(schema.GroupKind{Group: ref.Group, Kind: ref.Kind})
	if !ok {
		return finalize.Owner{}, false
	}
	uid, _, known := r.alive(ref.Namespace, ref.Name)
	return finalize.Owner{
		UID: types.UID(uid), Synced: known, MayFinalize: e.mayFinalize(ref.Namespace), DynamicKinds: r.anyChildren(), Resource: r.groupResource(),
	}, true
}

// watchFinalization watches the kinds of the children that the Inventories of a deleted custom resource list.
func (e *Engine) watchFinalization(ref keeper.InventoryOwner, listed map[plan.Key]keeper.InventoryEntry) (synced bool) {
	r, ok := e.controller(schema.GroupKind{Group: ref.Group, Kind: ref.Kind})
	return !ok || r.watchFinalization(ref.UID, listed)
}

// inventoryChanged enqueues the finalization of the custom resource and, after the deletion of an Inventory, the custom resource itself.
func (e *Engine) inventoryChanged(old, now metav1.Object, _ bool) {
	for _, o := range []metav1.Object{old, now} {
		inv, ok := o.(*keeper.Inventory)
		if !ok || inv == nil {
			continue
		}
		if old == nil || now == nil || old.GetGeneration() != now.GetGeneration() {
			e.enqueueFinalization(inv.Spec.Owner.Namespace, string(inv.Spec.Owner.UID))
		}
		if now == nil {
			owner := inv.Spec.Owner
			e.enqueue(schema.GroupKind{Group: owner.Group, Kind: owner.Kind}, owner.Namespace, owner.Name)
		}
	}
}

// enqueueFinalization enqueues a custom resource that may be gone by its UID and its namespace, which its shard follows from.
func (e *Engine) enqueueFinalization(namespace, ownerUID string) {
	if ownerUID != "" {
		e.finalizations.add(namespace, ownerUID)
	}
}

// enqueueFinalizationsOf enqueues the finalization of the custom resources whose Inventories have the label of a stack.
func (e *Engine) enqueueFinalizationsOf(stackHash string) {
	for _, inv := range e.inventories.List() {
		if inv.Labels[keeper.StackLabel] == stackHash {
			e.enqueueFinalization(inv.Spec.Owner.Namespace, string(inv.Spec.Owner.UID))
		}
	}
}

func (e *Engine) enqueueFinalizations() {
	for _, inv := range e.inventories.List() {
		e.enqueueFinalization(inv.Spec.Owner.Namespace, string(inv.Spec.Owner.UID))
	}
}

// inventoriesState is what the engine remembers of the Inventories of one custom resource.
type inventoriesState struct {
	// pending are the entries that are not recorded yet.
	pending inventory.Pending
	// names are those of the Inventories that there are to be, and lost is the one that was made again last.
	names map[string]bool
	lost  string
	// remade bounds how often they are made again for somebody who deletes them, as long as the user asks for the same.
	remade  backoff.Repetition
	request string
}

// mayRemakeInventories says that Inventories that somebody has deleted may be made again now, and counts that. With each go the objects that it
// owns, so that whoever deletes one whenever it was made would have all of them written anew without a pause.
func (s *stacks[C, F]) mayRemakeInventories(p *reconciliation[C, F], existing []*keeper.Inventory) bool {
	state, now := p.state.inventories, s.Clock.Now()
	if request := userRequest(p.cr); state.request != request {
		state.request, state.remade = request, backoff.Repetition{}
	}
	lost := state.missing(existing)
	switch {
	case lost != "" && state.remade.Waits(now):
		p.retry([]plan.Problem{inventoryDeleted(lost)}, state.remade.Due())
		return false
	case lost != "":
		state.remade.Again(backoff.TakenBack, now)
		state.lost = lost
		delete(state.names, lost)
	}
	if until := retry.Unproven(state.remade); now.Before(until) {
		p.retry([]plan.Problem{inventoryDeleted(state.lost)}, until)
	}
	return true
}

// inventoryDeleted is the problem of an Inventory that somebody deletes whenever it was made.
func inventoryDeleted(name string) plan.Problem {
	return plan.Problem{
		Class: plan.Blocked, Reason: retry.ReasonRecreationBackOff, Field: inventory.GVK.Kind, Value: name,
		Message: inventory.Key(name).String() + " is deleted by somebody whenever it was made, and with it what it owns; nothing of this resource is " +
			"written until it is made again",
		Remedy: "find out who deletes it, by the audit log, and stop that one",
	}
}

// made takes in which Inventories there are to be.
func (i *inventoriesState) made(invs []*keeper.Inventory) {
	i.names = make(map[string]bool, len(invs))
	for _, inv := range invs {
		i.names[inv.Name] = true
	}
}

// missing is the first Inventory by its name that there is to be and that does not exist; empty for none.
func (i *inventoriesState) missing(existing []*keeper.Inventory) string {
	for _, name := range slices.Sorted(maps.Keys(i.names)) {
		if !slices.ContainsFunc(existing, func(inv *keeper.Inventory) bool { return inv.Name == name }) {
			return name
		}
	}
	return ""
}

// needsInventories reports whether the custom resource cannot own every child, or not list it. It has Inventories, too, if users define the kinds and
// the plan waits for more objects, one of which may need an Inventory: a later change of the owner would write every object again.
func (s *stacks[C, F]) needsInventories(stack plan.Stack, p plan.Plan, recorded []keeper.InventoryEntry) bool {
	if s.inventories.Needed(stack, p, recorded) {
		return true
	}
	return s.def.AnyChildren && slices.ContainsFunc(p.Problems, func(problem plan.Problem) bool { return problem.Class == plan.Waiting }) &&
		slices.ContainsFunc(p.Stages, func(stage plan.Stage) bool { return len(stage.Objects) > 0 })
}

// persistInventory writes the inventory entries into the Inventories, or else onto the status of the custom resource.
func (s *stacks[C, F]) persistInventory(ctx context.Context, p *reconciliation[C, F], ready bool) error {
	if p.gatherFailed {
		s.takeHeldInventory(p)
		return nil
	}
	entries := s.entriesToKeep(p)
	s.seal(p, entries)
	p.remaining = entries
	s.forgetUnrecorded(p.state, entries)
	ofStatus := &s.def.Common(p.cr).Inventory.Entries
	if len(p.inventories) == 0 {
		*ofStatus = inventory.ForStatus(entries)
		return nil
	}
	*ofStatus = nil
	state := p.state.inventories
	state.pending.Set(entries)
	if !ready {
		if until, deferred := state.pending.Defer(s.Clock.Now(), p.createdOnly()); deferred {
			p.requeueAt(until)
			return nil
		}
	}
	deleted, err := s.inventories.Record(ctx, p.inventories, p.plan.Stages, p.stamped, entries)
	for _, name := range deleted {
		delete(state.names, name)
	}
	if err != nil {
		return err
	}
	state.pending.Set(nil)
	return nil
}

// takeHeldInventory has the status list what one lists that is not written yet, and which this one replaces. What it has listed since an earlier
// release is sealed, too, where nothing is reconciled, such as while it is suspended.
func (s *stacks[C, F]) takeHeldInventory(p *reconciliation[C, F]) {
	if held := p.state.pendingStatus; held != nil {
		*s.def.Common(p.cr).Inventory = *held
	}
	s.seal(p, s.def.Common(p.cr).Inventory.Entries)
}

// seal seals the entries of a custom resource as they are stored.
func (s *stacks[C, F]) seal(p *reconciliation[C, F], entries []keeper.InventoryEntry) {
	if len(entries) > 0 {
		inventory.Seal(s.sealer(p.stack.UID), entries)
	}
}

// entriesToKeep returns the entries of the plan's objects and of those that are not known to be gone.
func (s *stacks[C, F]) entriesToKeep(p *reconciliation[C, F]) []keeper.InventoryEntry {
	keep := map[plan.Key]bool{}
	for _, key := range p.plan.Keep {
		keep[key] = true
	}
	for _, a := range p.actions {
		// A deleted object keeps its entry until the watch says that it is gone.
		keep[a.Key] = true
	}
	var entries []keeper.InventoryEntry
	for key, e := range p.entries {
		// While nothing may be pruned, objects that the plan no longer has are not dropped either, nor those that were judged while the
		// watch on their kind was not complete.
		if keep[key] || !p.pruned || p.unseen[key.GroupKind] {
			entries = append(entries, e)
		}
	}
	sort.Slice(entries, func(i, j int) bool {
		return plan.KeyOfEntry(entries[i]).String() < plan.KeyOfEntry(entries[j]).String()
	})
	return entries
}

// forgetUnrecorded forgets what is remembered of children that the inventory does not have any more.
func (s *stacks[C, F]) forgetUnrecorded(state *reconcileState, entries []keeper.InventoryEntry) {
	recorded := make(map[plan.Key]bool, len(entries))
	for _, e := range entries {
		recorded[plan.KeyOfEntry(e)] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(state.finished, func(key plan.Key, _ types.UID) bool { return !recorded[key] })
}

// createdOnly reports whether this reconciliation wrote something and deleted nothing.
func (p *reconciliation[C, F]) createdOnly() bool {
	wrote := false
	for _, r := range p.results {
		if r.Action.Verb == decide.Delete {
			return false
		}
		wrote = wrote || r.Wrote
	}
	return wrote
}
