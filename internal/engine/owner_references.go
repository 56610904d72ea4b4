package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/engine/inventory"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

// stackOf identifies the children of a custom resource.
func (s *stacks[C, F]) stackOf(cr metav1.Object) plan.Stack {
	return plan.Stack{
		Controller: s.def.Controller, GVK: s.def.GVK, Namespace: cr.GetNamespace(), Name: cr.GetName(), UID: cr.GetUID(),
	}
}

// storedEntries returns the entries of the custom resource as the API server has them.
func (s *stacks[C, F]) storedEntries(cr C) func() map[plan.Key]keeper.InventoryEntry {
	return sync.OnceValue(func() map[plan.Key]keeper.InventoryEntry {
		return inventory.Merge(s.def.Common(cr).Inventory.Entries, s.inventories.Of(string(cr.GetUID())))
	})
}

// ownersOf are whom the children of a custom resource may belong to: itself, and its Inventories.
func (s *stacks[C, F]) ownersOf(cr C, inventories []*keeper.Inventory) []plan.Owner {
	out := []plan.Owner{s.self(cr)}
	for _, inv := range inventories {
		out = append(out, inventory.OwnerOf(inv))
	}
	return out
}

// self is the custom resource as an owner.
func (s *stacks[C, F]) self(cr metav1.Object) plan.Owner {
	return plan.Owner{
		APIVersion: s.def.GVK.GroupVersion().String(), Kind: s.def.GVK.Kind, Name: cr.GetName(), UID: cr.GetUID(),
	}
}

var errInventoriesUnseen = errors.New("the watch on Inventories is not complete yet")

// resolveOwners settles who owns the children, makes the Inventories where the custom resource cannot, stamps every object, and
// loads what is remembered of earlier writes.
func (s *stacks[C, F]) resolveOwners(ctx context.Context, p *reconciliation[C, F]) error {
	if p.gatherFailed {
		return nil
	}
	ofStatus := s.def.Common(p.cr).Inventory
	if p.state.pendingStatus != nil {
		ofStatus = p.state.pendingStatus
	}
	complete := s.inventories.Complete()
	existing := s.inventories.Of(string(p.cr.GetUID()))
	if len(existing) > 0 || s.needsInventories(p.stack, p.plan, ofStatus.Entries) {
		if !complete {
			return errInventoriesUnseen
		}
		if p.state.inventories == nil {
			p.state.inventories = &inventoriesState{}
		}
		if !s.mayRemakeInventories(p, existing) {
			p.gatherFailed = true
			return nil
		}
		// Once: the Inventories are written side by side.
		confirm := sync.OnceValue(func() error { return s.confirm(ctx, p) })
		var err error
		if p.inventories, err = s.inventories.Ensure(ctx, p.stack, p.plan, existing, confirm); err != nil {
			return fmt.Errorf("write the Inventories: %w", err)
		}
		p.state.inventories.made(p.inventories)
	}
	p.owners, p.entries = s.ownersOf(p.cr, p.inventories), inventory.Merge(ofStatus.Entries, p.inventories)
	if len(p.inventories) > 0 {
		for _, e := range p.state.inventories.pending.Entries() {
			p.entries[plan.KeyOfEntry(e)] = e
		}
	}
	return s.stamp(p)
}

// stamp gives the objects of the plan the engine's marks, or takes those of the pass before where nothing is different.
func (s *stacks[C, F]) stamp(p *reconciliation[C, F]) error {
	last := p.cache
	if last != nil && last.stamped != nil && slices.Equal(last.owners, p.owners) {
		p.stamped = last.stamped
	} else if err := s.stampAnew(p); err != nil {
		return err
	}
	if last != nil {
		last.owners, last.stamped = p.owners, p.stamped
	}
	s.watchKinds(p.stack.UID, p.entries, p.stamped)
	sealer := s.sealer(p.stack.UID)
	for _, stage := range p.stamped {
		for _, o := range stage {
			p.ignoreHealth[o.Key] = o.IgnoreHealth
			s.follow(p, sealer, o)
		}
	}
	return nil
}

func (s *stacks[C, F]) stampAnew(p *reconciliation[C, F]) error {
	listing := inventory.Listing(p.inventories)
	for i, stage := range p.plan.Stages {
		stamped := make([]plan.Stamped, 0, len(stage.Objects))
		for _, o := range stage.Objects {
			owner := p.owners[0]
			if len(p.inventories) > 0 {
				inv := listing[inventory.Place{Stage: stage.Name, Key: o.Key()}]
				if inv == nil {
					return fmt.Errorf("no Inventory of stage %s lists %s", stage.Name, o.Key())
				}
				owner = inventory.OwnerOf(inv)
			}
			st, err := plan.Stamp(s.digests.Key(), o, p.stack, owner, i)
			if err != nil {
				return err
			}
			stamped = append(stamped, st)
		}
		p.stamped = append(p.stamped, stamped)
	}
	return nil
}

// sealer seals and opens the entries of a custom resource.
func (s *stacks[C, F]) sealer(uid types.UID) digest.Sealer {
	return s.digests.Key().Sealer(string(uid))
}

// follow opens the entry of an object. It has the entry say whether the object is to be retained after its custom resource as the plan says it
// now, and whether a Job has completed: that alone changes nothing about what is declared, so that no write would tell.
func (s *stacks[C, F]) follow(p *reconciliation[C, F], sealer digest.Sealer, o plan.Stamped) {
	e, recorded := p.entries[o.Key]
	if !recorded {
		return
	}
	seen := s.child(o.Key)
	e = inventory.Open(sealer, e, o.Digest, seen)
	if e.AppliedHash == o.Digest {
		e.Run = o.Run() // A manager of before did not record it.
	}
	if seen != nil {
		e.Policy = inventory.PolicyOf(o, seen)
		e.Completed = e.Completed || seen.Completed && seen.UID == e.UID && seen.AppliedHash() == e.AppliedHash
	} else {
		e.Completed = s.completed(p.state, o.Key, e.UID, e.Completed)
	}
	p.entries[o.Key] = e
}

// abandoned says that an object that we made has no owner any more: it was kept when its custom resource went.
func (s *stacks[C, F]) abandoned(seen *observe.Object) bool {
	if metav1.GetControllerOfNoCopy(&seen.ObjectMeta) != nil {
		return false
	}
	namespace, name, ok := parseOwner(seen.Annotations[keeper.OwnerAnnotation], s.def.GVK.GroupKind())
	if !ok {
		return false
	}
	_, found, known := s.alive(namespace, name)
	return known && !found
}

// heldByAnother says that the marks of an object name another custom resource that exists, or may.
func (s *stacks[C, F]) heldByAnother(p *reconciliation[C, F], seen *observe.Object) bool {
	id := seen.Annotations[keeper.OwnerAnnotation]
	if id == "" || id == p.stack.ID() {
		return false
	}
	namespace, name, ok := parseOwner(id, s.def.GVK.GroupKind())
	if !ok {
		return true
	}
	_, found, known := s.alive(namespace, name)
	return found || !known
}

// wantsAdoption says that the owner of a custom resource allows the adoption of objects that nobody owns.
func wantsAdoption(cr client.Object) bool {
	return cr.GetAnnotations()[keeper.AdoptAnnotation] == "true"
}

// parseOwner reads "<Kind>.<group>/<namespace>/<name>".
func parseOwner(id string, gk schema.GroupKind) (namespace, name string, ok bool) {
	parts := strings.SplitN(id, "/", 3)
	if len(parts) != 3 || parts[0] != gk.Kind+"."+gk.Group {
		return "", "", false
	}
	return parts[1], parts[2], true
}
