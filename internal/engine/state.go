package engine

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/retry"
	"mlkeeper.dev/internal/engine/status"
	"mlkeeper.dev/internal/engine/watch"
	"mlkeeper.dev/internal/engine/wiring"
)

// reconcileState is what the engine remembers of one custom resource in memory. ARCHITECTURE.md says what losing each field costs.
type reconcileState struct {
	// uid is that of the custom resource: a recreated one has a state of its own.
	uid types.UID
	// stack is the label of its children.
	stack string
	// gates holds since when each stage waits for its dependencies.
	gates map[string]time.Time
	// retries holds when rejected writes, writes that somebody takes back, and what else no watch reports are tried again.
	retries retry.State
	// statusVersion is the resourceVersion that the last status write returned, by which its event is known. The lock of stacks guards it.
	statusVersion string
	// written is the sum of the last status that was written, and rewrites bounds how often it is written again over what somebody else has
	// made of it.
	written  uint64
	rewrites backoff.Repetition
	// released bounds how often the finalizers of a previous operator are removed.
	released backoff.Repetition
	// hold is why a changed status is not written yet, and since when.
	hold status.Hold
	// seenBefore says that this process has reconciled the custom resource before.
	seenBefore bool
	// tried is what the user had asked for in the last reconciliation.
	tried string
	// fresh says that this process has known the custom resource since before its first status, so that the time to Ready can be
	// measured.
	fresh bool
	// progressing says that debounce counts the custom resource.
	progressing bool
	// conflicts are the objects of this custom resource that another one has.
	conflicts []plan.Key
	// refs are the objects of others that the custom resource referred to in the last reconciliation.
	refs []watch.Ref
	// wiring holds the outcomes of the wires by target; it is guarded by the lock of stacks.
	wiring map[string][]wiring.Outcome
	// finished holds the UIDs of Jobs that had completed when they were removed, until the inventory has it. The lock of stacks guards it.
	finished map[plan.Key]types.UID
	// pendingStatus is the inventory of a reconciliation whose status is not written yet; nil when it is.
	pendingStatus *keeper.ResourceInventory
	// inventories is what is remembered of the Inventories; nil for a custom resource that has none.
	inventories *inventoriesState
	// healths are what the expressions of the custom resource told of its objects.
	healths healths
	// settled is the generation and the inputs that the custom resource was Ready with last.
	settled settled
	// renderCache is the last plan of a controller that says when a plan stays the same; nil for others, and where it was evicted.
	// evictions counts how often. The lock of stacks guards both.
	renderCache *renderCache
	evictions   int
}

func newState(uid types.UID) *reconcileState {
	return &reconcileState{uid: uid}
}

func (s *stacks[C, F]) stateOf(key client.ObjectKey) *reconcileState {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.states[key]
	if !ok {
		l = newState("")
		l.stack = s.hashOf(key)
		s.states[key] = l
	}
	return l
}

// hashOf is the label of the children of a custom resource.
func (s *stacks[C, F]) hashOf(key client.ObjectKey) string {
	return plan.Stack{GVK: s.def.GVK, Namespace: key.Namespace, Name: key.Name}.Hash()
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

// enqueueKnown enqueues every custom resource that has a state, so that it is forgotten if it is gone: no watch tells of those that go while
// their API is not served.
func (s *stacks[C, F]) enqueueKnown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.states {
		s.queue.add(key.Namespace, key.Name)
	}
}

// forget drops the state of a custom resource that is gone, or whose shard another manager has.
func (s *stacks[C, F]) forget(key client.ObjectKey) { s.end(key, nil) }

// end drops the state of a custom resource, and puts next in its place unless that is nil. The outcomes of the wires are kept: wires
// know a custom resource by its name, and report changes only.
func (s *stacks[C, F]) end(key client.ObjectKey, next *reconcileState) {
	referrer := watch.Referrer{Kind: s.def.GVK.GroupKind(), Namespace: key.Namespace, Name: key.Name}
	l := s.stateOf(key)
	s.waitForConflicts(key, l, nil)
	s.progress(l, false)
	s.mu.Lock()
	s.readers.Drop(l.refs)
	delete(s.states, key)
	if next != nil {
		next.wiring, next.stack = l.wiring, l.stack
		s.states[key] = next
	}
	delete(s.pendingReady, key)
	s.mu.Unlock()
	s.jobs.Keep(referrer)
	s.queue.backoff.Drop(reconcile.Request{NamespacedName: key})
	if keeps, ok := s.sys.(controller.Forgetful); ok {
		keeps.Forget(key)
	}
	s.releaseRollout(key)
	s.informers.ReleaseReferences(referrer)
	s.releaseKinds(key, l.uid)
	s.metrics.forget(s.def.GVK.Kind, key)
}
