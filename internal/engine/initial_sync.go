package engine

import (
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/inventory"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/status"
)

// inSyncAtStart looks at a custom resource that this process meets for the first time: after a restart or a fail-over nearly
// all are as they were left, and the inventory says so without a read (invariant 9). Such a one is counted as verified, and its
// whole pass, which reads what it refers to and renders with this release, waits until those that need it now had theirs.
func (s *stacks[C, F]) inSyncAtStart(cr C) bool {
	key := client.ObjectKeyFromObject(cr)
	state := s.stateOf(key)
	if state.seenBefore {
		return false
	}
	state.seenBefore = true
	common := s.def.Common(cr)
	if s.isSuspended(cr) || *common.ObservedGeneration != cr.GetGeneration() ||
		*common.LastHandledReconcileAt != requestedAt(cr) ||
		!meta.IsStatusConditionTrue(*common.Conditions, status.ConditionReady) ||
		meta.IsStatusConditionTrue(*common.Conditions, status.ConditionReconciling) {
		return false
	}
	states, ok := s.inSync(cr)
	if !ok {
		return false
	}
	now := s.Clock.Now()
	s.metrics.observe(s.def.GVK.Kind, key, states, meta.FindStatusCondition(*common.Conditions, status.ConditionReady), now)
	s.metrics.reconciled(s.def.GVK.Kind, outcomeReady)
	s.queue.addLast(s.spreadDelay(), key.Namespace, key.Name)
	return true
}

// spreadDelay is when the full reconciliation of a custom resource follows that was in sync at the start: the more there are, the longer
// they are spread over, so that those that need something now, and the API server, are not crowded out.
func (s *stacks[C, F]) spreadDelay() time.Duration {
	const each = 10 * time.Millisecond
	s.mu.Lock()
	crowd := each * time.Duration(len(s.states))
	s.mu.Unlock()
	return crowd/4 + time.Duration(rand.Int64N(int64(crowd)+1)) //nolint:gosec // Jitter needs no cryptographic randomness.
}

// inSync says that every child in the inventory is there as it was written, healthy, and that there is none beside.
func (s *stacks[C, F]) inSync(cr C) (map[plan.Key]controller.State, bool) {
	stack := s.stackOf(cr)
	inventories := s.inventories.Of(string(cr.GetUID()))
	owners, entries := s.ownersOf(cr, inventories), inventory.Merge(s.def.Common(cr).Inventory.Entries, inventories)
	s.watchKinds(stack.UID, entries, nil)
	states, sealer := make(map[plan.Key]controller.State, len(entries)), s.sealer(stack.UID)
	for key, e := range entries {
		synced := s.informers.ChildSynced(key.GroupKind, s.def.Controller)
		seen, found := s.informers.Child(s.def.Controller, key)
		if !found && e.Completed && synced {
			states[key] = controller.State{Current: true}
			continue
		}
		if !found || !synced || !matches(sealer, seen, e) || !seen.OwnedBy(stack, owners...) || seen.Health.Status != health.Current {
			return nil, false
		}
		states[key] = controller.State{Observed: seen, Current: true}
	}
	for _, seen := range s.informers.ChildrenOfStack(s.def.Controller, stack.Hash()) {
		if _, known := states[seen.Key]; !known {
			return nil, false
		}
	}
	return states, len(states) > 0
}

// matches says that a child is what the inventory says that it was when it was written last.
func matches(sealer digest.Sealer, seen *observe.Object, e keeper.InventoryEntry) bool {
	return !seen.Terminating() && seen.UID == e.UID && sealer.Is(e.OwnedFieldsHash, seen.OwnedFieldsHash) && sealer.Is(e.AppliedHash, seen.AppliedHash())
}
