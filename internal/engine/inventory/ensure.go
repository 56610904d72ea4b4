package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/parallel"
)

// parallelWrites is the number of Inventories of one custom resource that are written at once.
const parallelWrites = 8

// Needed reports whether a stack has a child that its custom resource cannot own: cluster-scoped, or in another namespace.
func (s *Store) Needed(stack plan.Stack, p plan.Plan) bool {
	if stack.Namespace == "" {
		return false // A cluster-scoped custom resource may own everything.
	}
	for _, stage := range p.Stages {
		for _, o := range stage.Objects {
			if o.Policy() != "" {
				continue
			}
			mapping, ok := s.Catalog.Lookup(o.Desired.GroupVersionKind())
			if ok && (!mapping.Namespaced || o.Desired.GetNamespace() != stack.Namespace) {
				return true
			}
		}
	}
	return false
}

// Ensure creates one Inventory per stage and lists every object of the plan in it, before any of them is written. An object that is
// listed already stays listed until Record finds that it is gone. The Inventories of stages that the plan no longer has come last,
// since they still own the objects to be pruned. confirm is called before the first write, and its error prevents the write.
func (s *Store) Ensure(
	ctx context.Context, stack plan.Stack, p plan.Plan, existing []*keeper.Inventory, confirm func() error,
) ([]*keeper.Inventory, error) {
	if !s.Cache.ResourceSynced(GVK.GroupKind()) {
		return nil, errors.New("the watch on Inventories is not complete yet")
	}
	if _, served := s.Catalog.Lookup(GVK); !served {
		return nil, errors.New("the CustomResourceDefinition of Inventory is not installed: run make install")
	}
	out := make([]*keeper.Inventory, len(p.Stages))
	failures := parallel.Each(ctx, parallelWrites, p.Stages, func(ctx context.Context, i int, stage plan.Stage) (err error) {
		out[i], err = s.ensureStage(ctx, stack, p.ActAs, i, stage, existing, confirm)
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

// ensureStage creates the Inventory of a stage, or adds the objects to it that it does not list yet.
func (s *Store) ensureStage(
	ctx context.Context, stack plan.Stack, user string, i int, stage plan.Stage, existing []*keeper.Inventory, confirm func() error,
) (*keeper.Inventory, error) {
	name := nameOf(stack, i)
	var have *keeper.Inventory
	for _, inv := range existing {
		if inv.Name == name {
			have = inv
		}
	}
	want := union(have, stage)
	if have != nil && len(want) == len(have.Spec.Entries) && have.Spec.Impersonate == user {
		return have, nil
	}
	if err := confirm(); err != nil {
		return nil, err
	}
	if have == nil {
		return s.create(ctx, newInventory(stack, name, i, user, want))
	}
	next := have.DeepCopy()
	next.Spec.Entries, next.Spec.Impersonate = want, user
	return s.update(ctx, next)
}

// nameOf is stable for a custom resource and contains its UID, so that two of the same name never share an Inventory.
func nameOf(stack plan.Stack, stage int) string {
	kind := strings.ToLower(stack.GVK.Kind)
	if len(kind) > 200 {
		kind = kind[:200]
	}
	return fmt.Sprintf("%s-%s-%.8s-%d", kind, stack.Hash(), stack.UID, stage)
}

func newInventory(stack plan.Stack, name string, stage int, user string, objects []keeper.InventoryEntry) *keeper.Inventory {
	return &keeper.Inventory{
		TypeMeta: metav1.TypeMeta{APIVersion: keeper.GroupVersion.String(), Kind: GVK.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{keeper.ControllerLabel: stack.Controller, keeper.StackLabel: stack.Hash()},
			Annotations: map[string]string{keeper.OwnerAnnotation: stack.ID()},
		},
		Spec: keeper.InventorySpec{
			Owner: keeper.InventoryOwner{
				Group: stack.GVK.Group, Kind: stack.GVK.Kind, Namespace: stack.Namespace, Name: stack.Name, UID: stack.UID,
			},
			Stage:       int32(stage), //nolint:gosec // The number of stages is bounded by the Inventory's schema.
			Impersonate: user,
			Entries:     objects,
		},
	}
}

// union lists the objects of a stage in their order, followed by the other objects that an Inventory lists. The result does not
// depend on the number of reconciliations in which the stage became complete.
func union(have *keeper.Inventory, stage plan.Stage) []keeper.InventoryEntry {
	var out []keeper.InventoryEntry
	before := map[plan.Key]keeper.InventoryEntry{}
	if have != nil {
		for _, e := range have.Spec.Entries {
			before[KeyOf(e)] = e
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
			if !planned[KeyOf(e)] {
				out = append(out, e)
			}
		}
	}
	return out
}
