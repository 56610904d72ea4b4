package engine

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/watch"
	"mlkeeper.dev/internal/engine/wiring"
)

// reconcileState is what the engine remembers of one custom resource in memory. ARCHITECTURE.md says what losing each field costs.
type reconcileState struct {
	// uid is that of the custom resource: a recreated one has a state of its own.
	uid types.UID
	// gates holds since when each stage waits for its dependencies.
	gates map[string]time.Time
	// blocked is when a condition that no watch reports is checked again.
	blocked backoff.Retry
	// minor is when a status change that can wait was first seen.
	minor time.Time
	// holdSince is since when a status is held because the caches are not complete.
	holdSince time.Time
	// opening is since when gather waits for a watch that is being opened.
	opening time.Time
	// pendingSince is since when a Ready waits for the wires, unacknowledged the targets that they have not processed yet. The lock of
	// stacks guards both.
	pendingSince   time.Time
	unacknowledged map[wireTarget]bool
	// seenBefore says that this process has reconciled the custom resource before.
	seenBefore bool
	// tried is the generation of the last reconciliation.
	tried int64
	// fresh says that this process has known the custom resource since before its first status, so that the time to
	// ready can be told.
	fresh bool
	// progressing says that debounce counts the custom resource.
	progressing bool
	// conflicts are the objects of this custom resource that another one has.
	conflicts []plan.Key
	// refs are the objects of others that the custom resource referred to in the last reconciliation.
	refs []watch.Ref
	// wiring holds the outcomes of the wires by target; it is guarded by the lock of stacks.
	wiring map[string][]wiring.Outcome
	// deleted holds the UIDs of children whose deletion was acknowledged, until the caches know it too (invariant 12).
	deleted map[plan.Key]types.UID
	// rejected holds the writes that the API server rejected, until one of the same object succeeds.
	rejected map[plan.Key]rejection
	// recreated counts how often each object was recreated lately.
	recreated map[plan.Key]recreation
	// finished holds the UIDs of Jobs that had completed when they were removed, until the inventory has it. The lock of stacks guards it.
	finished map[plan.Key]types.UID
	// pendingStatus is the inventory of a reconciliation whose status is not written yet; nil when it is.
	pendingStatus *keeper.ResourceInventory
	// pendingEntries is the inventory of a reconciliation that is not written into the Inventories yet, since pendingEntriesSince; nil and
	// zero when it is.
	pendingEntries      []keeper.InventoryEntry
	pendingEntriesSince time.Time
	// settled is the generation and the inputs that the custom resource was Ready with last.
	settled settled
	// renderCache is the last plan of a controller that says when a plan stays the same; nil for others.
	renderCache *renderCache
}

// going returns a child as MLKeeper's deletion left it, while the caches do not know of the deletion.
func (st *reconcileState) going(seen *observe.Object, now time.Time) *observe.Object {
	uid, ok := st.deleted[seen.Key]
	switch {
	case !ok || seen.Terminating():
		return seen
	case uid != seen.UID:
		delete(st.deleted, seen.Key)
		return seen
	}
	out := *seen
	at := metav1.NewTime(now)
	out.DeletionTimestamp = &at
	out.Health = health.Result{Status: health.Terminating, Reason: "Terminating", Message: "is being deleted"}
	return &out
}

func newState(uid types.UID) *reconcileState {
	return &reconcileState{uid: uid, gates: map[string]time.Time{}, deleted: map[plan.Key]types.UID{}}
}

func (s *stacks[C, F]) stateOf(key client.ObjectKey) *reconcileState {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.states[key]
	if !ok {
		l = newState("")
		s.states[key] = l
	}
	return l
}

// meet begins a new state for a custom resource that was recreated under its name. No reconciliation need have found the name absent:
// the deletion and the creation may both have come while one was running.
func (s *stacks[C, F]) meet(key client.ObjectKey, uid types.UID) {
	l := s.stateOf(key)
	if l.uid != "" && l.uid != uid {
		s.end(key, newState(uid))
		return
	}
	l.uid = uid
}

// forget drops the state of a custom resource that is gone, or that another shard has.
func (s *stacks[C, F]) forget(key client.ObjectKey) { s.end(key, nil) }

// end drops the state of a custom resource, and puts next in its place unless that is nil. The outcomes of the wires are kept: wires
// know a custom resource by its name, and report changes only.
func (s *stacks[C, F]) end(key client.ObjectKey, next *reconcileState) {
	referrer := watch.Referrer{Kind: s.def.GVK.GroupKind(), Namespace: key.Namespace, Name: key.Name}
	l := s.stateOf(key)
	s.waitForConflicts(key, l, nil)
	s.progress(l, false)
	s.mu.Lock()
	for _, ref := range l.refs {
		s.contents.drop(ref)
	}
	delete(s.states, key)
	if next != nil {
		next.wiring = l.wiring
		s.states[key] = next
	}
	delete(s.written, key)
	delete(s.pendingReady, key)
	s.mu.Unlock()
	s.jobs.Keep(referrer)
	s.queue.backoff.Drop(reconcile.Request{NamespacedName: key})
	if keeps, ok := s.sys.(controller.Forgetful); ok {
		keeps.Forget(key)
	}
	s.releaseRollout(key)
	s.informers.ReleaseReferences(referrer)
	s.metrics.forget(s.def.GVK.Kind, key)
}
