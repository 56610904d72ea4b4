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

// life is what the engine remembers of one custom resource in memory; losing it costs nothing but time.
type life struct {
	// uid is that of the custom resource: one that was made anew under its name has a life of its own.
	uid types.UID
	// gates holds since when the gate of a stage is closed.
	gates map[string]time.Time
	// blocked is when what cannot be watched is looked at again.
	blocked backoff.Retry
	// minor is when a status change that can wait was first seen.
	minor time.Time
	// learning is since when a status is kept of what is not wholly known to this process.
	learning time.Time
	// opening is since when a watch is being opened that gather waits for.
	opening time.Time
	// foreseen is since when a Ready waits for the wires, awaited what they have not looked at yet. Both are guarded by
	// the lock of stacks.
	foreseen time.Time
	awaited  map[wireTarget]bool
	// met says that this process has seen the custom resource before.
	met bool
	// tried is the generation of the last pass.
	tried int64
	// fresh says that this process has known the custom resource since before its first status, so that the time to
	// ready can be told.
	fresh bool
	// progressing says that the custom resource is counted as underway.
	progressing bool
	// contends are the objects that another custom resource holds and this one would have.
	contends []plan.Key
	// refs are the objects of others that the custom resource referred to in the last pass.
	refs []watch.Ref
	// wiring holds the outcomes of the wires by target; it is guarded by the lock of stacks.
	wiring map[string][]wiring.Outcome
	// deleted holds the UIDs of children whose deletion was acknowledged, until the caches know it too (law 12).
	deleted map[plan.Key]types.UID
	// refused holds the writes that were refused, until one of the same object is not.
	refused map[plan.Key]refusal
	// vanished holds what was made anew lately.
	vanished map[plan.Key]vanished
	// unsaved is the ledger of a pass whose status is not written yet; nil when it is.
	unsaved *[]keeper.InventoryEntry
	// unrecorded is the ledger of a pass that is not written into the Inventories yet, made since when there is such a one;
	// nil and zero when it is.
	unrecorded []keeper.InventoryEntry
	made       time.Time
	// settled is what the custom resource was Ready with last.
	settled settled
	// drawn is the last plan, of a system that tells when it stays the same; nil for others.
	drawn *drawn
}

// going returns a child as our own deletion left it, where the caches do not know of that yet.
func (l *life) going(seen *observe.Object, now time.Time) *observe.Object {
	uid, ok := l.deleted[seen.Key]
	switch {
	case !ok || seen.Terminating():
		return seen
	case uid != seen.UID:
		delete(l.deleted, seen.Key)
		return seen
	}
	out := *seen
	at := metav1.NewTime(now)
	out.DeletionTimestamp = &at
	out.Health = health.Result{Status: health.Terminating, Reason: "Terminating", Message: "is being deleted"}
	return &out
}

func newLife(uid types.UID) *life {
	return &life{uid: uid, gates: map[string]time.Time{}, deleted: map[plan.Key]types.UID{}}
}

func (s *stacks[C, F]) life(key client.ObjectKey) *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.lives[key]
	if !ok {
		l = newLife("")
		s.lives[key] = l
	}
	return l
}

// meet begins a life for the custom resource that a pass finds under a name. No pass need have seen the name without one:
// deletion and creation may both have come while a pass was under way.
func (s *stacks[C, F]) meet(key client.ObjectKey, uid types.UID) {
	l := s.life(key)
	if l.uid != "" && l.uid != uid {
		s.end(key, newLife(uid))
		return
	}
	l.uid = uid
}

// forget drops what is remembered of a custom resource that is gone, or is another shard's.
func (s *stacks[C, F]) forget(key client.ObjectKey) { s.end(key, nil) }

// end drops what is remembered of a custom resource, in favour of its successor under the name, if there is one. The
// successor takes over the outcomes of the wires: these know a custom resource by its name, and tell what changed only.
func (s *stacks[C, F]) end(key client.ObjectKey, next *life) {
	referrer := watch.Referrer{Kind: s.def.GVK.GroupKind(), Namespace: key.Namespace, Name: key.Name}
	l := s.life(key)
	s.contend(key, l, nil)
	s.progress(l, false)
	s.mu.Lock()
	for _, ref := range l.refs {
		s.contents.drop(ref)
	}
	delete(s.lives, key)
	if next != nil {
		next.wiring = l.wiring
		s.lives[key] = next
	}
	delete(s.written, key)
	delete(s.foreseen, key)
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
