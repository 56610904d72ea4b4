package inventory

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/parallel"
)

// Record writes the entries of a reconciliation into the status of the Inventories. It removes objects from the spec that are
// neither wanted nor exist any more. Of the Inventories that list none it keeps the first of each stage that the plan has; stages are
// those of the plan. It returns the names of those that it deleted.
func (s *Store) Record(
	ctx context.Context, invs []*keeper.Inventory, stages []plan.Stage, stamped [][]plan.Stamped, entries []keeper.InventoryEntry,
) (deleted []string, err error) {
	stageOf := stagesOf(stages, stamped)
	first := map[string]*keeper.Inventory{}
	for _, inv := range invs {
		if first[inv.Spec.StageName] == nil {
			first[inv.Spec.StageName] = inv
		}
	}
	recorded := map[plan.Key]bool{}
	for _, e := range entries {
		recorded[plan.KeyOfEntry(e)] = true
	}
	gone := make([]bool, len(invs))
	failures := parallel.Each(ctx, parallelWrites, invs, func(ctx context.Context, i int, inv *keeper.Inventory) error {
		stage := inv.Spec.StageName
		var spec, status []keeper.InventoryEntry
		listed := map[plan.Key]bool{}
		for _, e := range inv.Spec.Entries {
			at, wanted := stageOf[plan.KeyOfEntry(e)]
			if wanted && (at == stage || s.mayOwn(inv, plan.KeyOfEntry(e))) || !wanted && (recorded[plan.KeyOfEntry(e)] || s.owns(inv, plan.KeyOfEntry(e))) {
				spec = append(spec, e)
				listed[plan.KeyOfEntry(e)] = !wanted || at == stage
			}
		}
		for _, e := range entries {
			if listed[plan.KeyOfEntry(e)] {
				status = append(status, e)
			}
		}
		planned := slices.ContainsFunc(stages, func(of plan.Stage) bool { return of.Name == stage })
		if len(spec) == 0 && (!planned || inv != first[stage]) {
			gone[i] = true
			return s.Delete(ctx, inv)
		}
		return s.replace(ctx, inv, spec, boundLeftOut(status))
	})
	for i, inv := range invs {
		if gone[i] {
			deleted = append(deleted, inv.Name)
		}
	}
	return deleted, cmp.Or(failures...)
}

// stagesOf returns the name of the stage of each object.
func stagesOf(stages []plan.Stage, stamped [][]plan.Stamped) map[plan.Key]string {
	out := map[plan.Key]string{}
	for i, stage := range stamped {
		for _, o := range stage {
			out[o.Key] = stages[i].Name
		}
	}
	return out
}

// replace writes the lists of an Inventory, as far as they changed.
func (s *Store) replace(ctx context.Context, inv *keeper.Inventory, spec, status []keeper.InventoryEntry) error {
	next := inv.DeepCopy()
	if len(spec) != len(inv.Spec.Entries) {
		next.Spec.Entries = spec
		updated, err := s.update(ctx, next)
		if err != nil {
			return fmt.Errorf("write Inventory %s: %w", inv.Name, err)
		}
		// The cache has the answer, which must not change.
		next = updated.DeepCopy()
	}
	if reflect.DeepEqual(next.Status.Entries, status) {
		return nil
	}
	next.Status.Entries = status
	_, err := s.UpdateStatus(ctx, next)
	return err
}

// mayOwn reports whether an Inventory is the controller of an object that another stage has now, as far as is known. Until the watch on its kind is
// complete, as after a start, an object that is not seen may exist, and would go with the Inventory.
func (s *Store) mayOwn(inv *keeper.Inventory, key plan.Key) bool {
	controller := inv.Labels[keeper.ControllerLabel]
	synced := s.Cache.ChildSynced(key.GroupKind, controller)
	if _, seen := s.Cache.Child(controller, key); !seen && !synced {
		return true
	}
	return s.owns(inv, key)
}

// owns reports whether an object exists and has an Inventory as its controller.
func (s *Store) owns(inv *keeper.Inventory, key plan.Key) bool {
	seen, ok := s.Cache.Child(inv.Labels[keeper.ControllerLabel], key)
	if !ok {
		return false
	}
	ref := metav1.GetControllerOfNoCopy(&seen.ObjectMeta)
	return ref != nil && ref.UID == inv.UID
}
