package engine

import (
	"context"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"mlkeeper.dev/internal/engine/shard"
)

// fenced reconciles what is of a shard that this manager holds. Requests for others were queued before it lost their shard.
type fenced struct {
	reconcile.Reconciler
	shards *shard.Shards
}

// Reconcile implements reconcile.Reconciler.
func (f fenced) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ctx, done, held := f.shards.Begin(ctx, req.NamespacedName)
	if !held {
		return reconcile.Result{}, nil
	}
	defer done()
	return f.Reconciler.Reconcile(ctx, req)
}

// watchShards has the engine follow which shards this manager holds.
func (e *Engine) watchShards() {
	if e.Shards == nil {
		return
	}
	for i := range e.Shards.Count() {
		shardHeld.WithLabelValues(strconv.Itoa(i)).Set(0)
	}
	e.Shards.OnChange(e.gainedShard, e.lostShard)
	if e.Shards.Count() > 1 {
		e.Shards.ShareTurn(rolloutTurn{e})
	}
}

// gainedShard enqueues everything in a shard, as the start does for all.
func (e *Engine) gainedShard(i int) {
	shardHeld.WithLabelValues(strconv.Itoa(i)).Set(1)
	for _, r := range e.reconcilers() {
		r.enqueueShard(i)
	}
	for _, inv := range e.inventories.List() {
		if owner := inv.Spec.Owner; e.inShard(i, owner.Namespace, owner.Name) {
			e.enqueueFinalization(owner.Namespace, string(owner.UID))
		}
	}
}

// lostShard drops what is kept of a shard, of which nothing runs any more. Another manager changes what it is about, so that it would be
// out of date when the shard returns.
func (e *Engine) lostShard(i int) {
	for _, r := range e.reconcilers() {
		r.dropShard(i)
	}
	e.actor.Tracker.ForgetAll(func(owner types.NamespacedName) bool { return e.inShard(i, owner.Namespace, owner.Name) })
	for _, inv := range e.inventories.List() {
		if owner := inv.Spec.Owner; e.inShard(i, owner.Namespace, owner.Name) {
			e.finalized(owner.UID)
		}
	}
	shardHeld.WithLabelValues(strconv.Itoa(i)).Set(0)
}

func (e *Engine) inShard(i int, namespace, name string) bool {
	return e.Shards.Of(types.NamespacedName{Namespace: namespace, Name: name}) == i
}

// mayFinalize says whether this manager may finalize what a custom resource in a namespace left behind. Inventories are seen of all
// namespaces, also by a manager that watches few.
func (e *Engine) mayFinalize(namespace string) bool {
	return len(e.Namespaces) == 0 || namespace == "" || slices.Contains(e.Namespaces, namespace)
}

// enqueueShard enqueues the custom resources of a shard, and the wires in its namespaces.
func (s *stacks[C, F]) enqueueShard(i int) {
	for _, o := range s.informers.ListResources(s.def.GVK.GroupKind(), "") {
		if s.inShard(i, o.GetNamespace(), o.GetName()) {
			s.queue.add(o.GetNamespace(), o.GetName())
		}
	}
	for _, w := range s.wires {
		for _, target := range w.targets("") {
			if s.inShard(i, target.Namespace, target.Name) {
				w.queue.add(target.Namespace, target.Name)
			}
		}
	}
}

// dropShard forgets the custom resources of a shard.
func (s *stacks[C, F]) dropShard(i int) {
	s.mu.Lock()
	var keys []client.ObjectKey
	for key := range s.states {
		if s.inShard(i, key.Namespace, key.Name) {
			keys = append(keys, key)
		}
	}
	s.mu.Unlock()
	for _, key := range keys {
		s.forget(key)
	}
	for _, w := range s.wires {
		w.rec.Forget(func(target types.NamespacedName) bool { return s.inShard(i, target.Namespace, target.Name) })
	}
}
