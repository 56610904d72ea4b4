package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/parallel"
)

// parallelWrites is the number of Inventories of one custom resource that are written at once.
const parallelWrites = 8

// Needed reports whether a stack has a child that its custom resource cannot own, because it is cluster-scoped or in another namespace,
// or more children than the status of the custom resource can list.
// recorded are those that the status has.
func (s *Store) Needed(stack plan.Stack, p plan.Plan, recorded []keeper.InventoryEntry) bool {
	if stack.Namespace == "" {
		return false // A cluster-scoped custom resource may own everything.
	}
	if tooLargeForStatus(p, recorded) {
		return true
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

// Ensure creates the Inventories of each stage, which is one unless it has more objects than one can list, and lists every object of the
// plan in them, before any of them is written. An object that is listed already stays listed until Record finds that it is gone. The
// Inventories of stages that the plan no longer has come last, since they still own the objects to be pruned. confirm is called before
// the first write, and its error prevents the write.
func (s *Store) Ensure(
	ctx context.Context, stack plan.Stack, p plan.Plan, existing []*keeper.Inventory, confirm func() error,
) ([]*keeper.Inventory, error) {
	if _, served := s.Catalog.Lookup(GVK); !served {
		return nil, errors.New("the CustomResourceDefinition of Inventory is not installed: run make install")
	}
	if err := distinct(p.Stages); err != nil {
		return nil, err
	}
	ofStage, former := assign(p.Stages, existing)
	numbers := numbersOf(ofStage)
	if err := s.renumber(ctx, ofStage, numbers, confirm); err != nil {
		return nil, err
	}
	failures := parallel.Each(ctx, parallelWrites, p.Stages, func(ctx context.Context, i int, stage plan.Stage) (err error) {
		ofStage[i], err = s.ensureStage(ctx, place{stack, stage.Name, numbers[i], p.ActAs}, stage, ofStage[i], confirm)
		return err
	})
	if err := cmp.Or(failures...); err != nil {
		return nil, err
	}
	return append(slices.Concat(ofStage...), former...), nil
}

// distinct holds that each stage of a plan has a name of its own, by which its Inventories are found again.
func distinct(stages []plan.Stage) error {
	names := map[string]bool{}
	for _, stage := range stages {
		if stage.Name == "" || names[stage.Name] {
			return fmt.Errorf("bug: the plan has two stages %q, or one without a name", stage.Name)
		}
		names[stage.Name] = true
	}
	return nil
}

// place is what the Inventories of a stage have in common.
type place struct {
	stack  plan.Stack
	stage  string
	number int32
	user   string
}

// ensureStage creates the Inventories of a stage, or adds the objects to them that none lists yet.
func (s *Store) ensureStage(
	ctx context.Context, in place, stage plan.Stage, existing []*keeper.Inventory, confirm func() error,
) ([]*keeper.Inventory, error) {
	var out []*keeper.Inventory
	for _, one := range split(existing, stage) {
		inv, err := s.ensurePart(ctx, in, one, confirm)
		if err != nil {
			return nil, err
		}
		out = append(out, inv)
	}
	return out, nil
}

func (s *Store) ensurePart(ctx context.Context, in place, one *part, confirm func() error) (*keeper.Inventory, error) {
	have, want := one.have, union(one.have, one.objects)
	if have != nil && in.is(have) && len(want) == len(have.Spec.Entries) {
		return have, nil
	}
	if err := confirm(); err != nil {
		return nil, err
	}
	if have == nil {
		created, err := s.create(ctx, newInventory(in, one.number, want))
		if err != nil {
			return nil, err
		}
		// One of a process that crashed, which the cache does not have yet, may list less.
		have, want = created, union(created, one.objects)
		if in.is(have) && len(want) == len(have.Spec.Entries) {
			return have, nil
		}
	}
	next := have.DeepCopy()
	next.Spec.StageName, next.Spec.Stage, next.Spec.Entries, next.Spec.Impersonate = in.stage, in.number, want, in.user
	return s.update(ctx, next)
}

// is reports whether an Inventory is one of the stage as it is now.
func (in place) is(inv *keeper.Inventory) bool {
	return inv.Spec.StageName == in.stage && inv.Spec.Stage == in.number && inv.Spec.Impersonate == in.user
}

// nameOf is stable for a custom resource. A stage's name has no dot, so that a part is never taken for a stage, nor for an Inventory of an
// earlier version, whose name ended in a dash and a number.
func nameOf(stack plan.Stack, stage string, part int32) string {
	name := stack.InventoryPrefix() + "." + stage
	if part > 0 {
		name += fmt.Sprintf(".%d", part)
	}
	return name
}

func newInventory(in place, part int32, objects []keeper.InventoryEntry) *keeper.Inventory {
	stack := in.stack
	return &keeper.Inventory{
		TypeMeta: metav1.TypeMeta{APIVersion: keeper.GroupVersion.String(), Kind: GVK.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: nameOf(stack, in.stage, part), Labels: map[string]string{keeper.ControllerLabel: stack.Controller, keeper.StackLabel: stack.Hash()},
			Annotations: map[string]string{keeper.OwnerAnnotation: stack.ID()},
		},
		Spec: keeper.InventorySpec{
			Owner: keeper.InventoryOwner{
				Group: stack.GVK.Group, Kind: stack.GVK.Kind, Namespace: stack.Namespace, Name: stack.Name, UID: stack.UID,
			},
			StageName:   in.stage,
			Stage:       in.number,
			Part:        part,
			Impersonate: in.user,
			Entries:     objects,
		},
	}
}

// union lists some objects of a stage in their order, followed by the other objects that an Inventory lists. The result does not
// depend on the number of reconciliations in which the stage became complete.
func union(have *keeper.Inventory, objects []plan.Object) []keeper.InventoryEntry {
	var out []keeper.InventoryEntry
	before := map[plan.Key]keeper.InventoryEntry{}
	if have != nil {
		for _, e := range have.Spec.Entries {
			before[plan.KeyOfEntry(e)] = e
		}
	}
	planned := map[plan.Key]bool{}
	for _, o := range objects {
		if planned[o.Key()] {
			continue
		}
		planned[o.Key()] = true
		e, known := before[o.Key()]
		if !known {
			e = listed(o)
		}
		out = append(out, e)
	}
	if have != nil {
		for _, e := range have.Spec.Entries {
			if !planned[plan.KeyOfEntry(e)] {
				out = append(out, e)
			}
		}
	}
	return out
}

// listed is the entry of an object that is not written yet.
func listed(o plan.Object) keeper.InventoryEntry {
	key := o.Key()
	return keeper.InventoryEntry{
		ObjectReference: keeper.ObjectReference{
			Group: key.Group, Version: o.Desired.GroupVersionKind().Version, Kind: key.Kind, Namespace: key.Namespace, Name: key.Name,
		},
		Policy: o.Policy(),
	}
}
