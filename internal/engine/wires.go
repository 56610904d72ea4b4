package engine

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/reader"
	"mlkeeper.dev/internal/engine/watch"
	"mlkeeper.dev/internal/engine/wiring"
)

// wireRunner runs the reconciler of one wire on the engine's watches and queues.
type wireRunner struct {
	engine *Engine
	wire   wiring.Wire
	queue  *queue
	rec    *wiring.Reconciler
	// namespaces returns those that have custom resources, in which an object may be created.
	namespaces func() []string
	// acknowledged is called for each target that was processed without a write, with the time at which that began.
	acknowledged func(wire string, target client.ObjectKey, since time.Time)
	// wrote holds the targets that the reconcile under way has written.
	wrote sync.Map
}

// newWireRunner makes the controller of one wire. namespaces returns those that have custom resources, and alive lists the custom resources
// that may have entries. wired is called with the outcomes, and seen with a namespace in which what the custom resources report of a target may have changed.
func newWireRunner(
	e *Engine, wire wiring.Wire, namespaces func() []string, alive func(namespace string) ([]client.Object, error),
	wired func(owner string, target plan.Key, outcomes []wiring.Outcome), seen func(namespace string),
	acknowledged func(wire string, target client.ObjectKey, since time.Time),
) (*wireRunner, error) {
	r := &wireRunner{engine: e, wire: wire, namespaces: namespaces, acknowledged: acknowledged}
	r.rec = wiring.NewReconciler(wire, wiring.Deps{
		Client: e.client, Resource: r.resource, Source: targets{e.informers}, Clock: e.Clock,
		Alive:  func(_, namespace string) ([]client.Object, error) { return alive(namespace) },
		Report: wired,
		Wrote: func(target plan.Key, verb string) {
			r.wrote.Store(client.ObjectKey{Namespace: target.Namespace, Name: target.Name}, true)
			writes.WithLabelValues(target.Kind, strings.ToUpper(verb[:1])+verb[1:], "Wiring").Inc()
		},
		Log: e.Log.WithName("wiring").WithValues("wire", wire.Name),
	})
	q, err := newController(e, "wire-"+wire.Name, max(e.Concurrency/4, 1), r, r.enqueueAll)
	if err != nil {
		return nil, err
	}
	r.queue = q
	e.informers.WatchTargets(wire.Name, wire.GVK, wire.LabelSelector, wire.FieldSelector, wire.Strip,
		func(old, now *unstructured.Unstructured) {
			one := now
			if one == nil {
				one = old
			}
			r.queue.add(one.GetNamespace(), one.GetName())
			if concerns(old, now) {
				// The outcome of our own write comes before the cache has it, and a target that no custom resource edits has no outcome:
				// in both cases only this enqueues the custom resources.
				seen(one.GetNamespace())
			}
		})
	return r, nil
}

// concerns says that a change of a target is more than a change of what the wire does not keep.
func concerns(old, now *unstructured.Unstructured) bool {
	if old == nil || now == nil {
		return true
	}
	content := func(u *unstructured.Unstructured) map[string]any {
		out := maps.Clone(u.Object)
		delete(out, "metadata")
		return out
	}
	return !maps.Equal(old.GetLabels(), now.GetLabels()) || !maps.Equal(old.GetAnnotations(), now.GetAnnotations()) ||
		(old.GetDeletionTimestamp() == nil) != (now.GetDeletionTimestamp() == nil) ||
		!equality.Semantic.DeepEqual(content(old), content(now))
}

// Reconcile implements reconcile.Reconciler.
func (r *wireRunner) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	began := r.engine.Clock.Now()
	after, err := r.rec.Reconcile(ctx, req.NamespacedName)
	if _, wrote := r.wrote.LoadAndDelete(req.NamespacedName); !wrote {
		// After a write its event enqueues the target again, and only then has the cache what the status reports.
		r.acknowledged(r.wire.Name, req.NamespacedName, began)
	}
	return reconcile.Result{RequeueAfter: after}, err
}

func (r *wireRunner) resource(gvk schema.GroupVersionKind) (schema.GroupVersionResource, bool) {
	mapping, ok := r.engine.catalog.Lookup(gvk)
	return mapping.Resource, ok
}

func (r *wireRunner) enqueueAll() { r.enqueueNamespace("") }

// enqueueNamespace enqueues the targets of a namespace, or all targets if it is empty.
func (r *wireRunner) enqueueNamespace(namespace string) { r.enqueueWith(priorityDefault, namespace) }

func (r *wireRunner) enqueueWith(priority int, namespace string) {
	for _, target := range r.targets(namespace) {
		r.queue.addWith(priority, target.Namespace, target.Name)
	}
}

// targets are the targets of a namespace, and the one that would be created there; of all namespaces if it is empty.
func (r *wireRunner) targets(namespace string) []client.ObjectKey {
	var out []client.ObjectKey
	listed := map[client.ObjectKey]bool{}
	for _, u := range r.engine.informers.ListTargets(r.wire.Name, namespace) {
		out = append(out, client.ObjectKeyFromObject(u))
		listed[client.ObjectKeyFromObject(u)] = true
	}
	if r.wire.CreateName == "" {
		return out
	}
	namespaces := []string{namespace}
	if namespace == "" {
		namespaces = r.namespaces()
	}
	for _, in := range namespaces {
		if created := (client.ObjectKey{Namespace: in, Name: r.wire.CreateName}); !listed[created] {
			out = append(out, created)
		}
	}
	return out
}

// namespaces returns those that have custom resources.
func (s *stacks[C, F]) namespaces() []string {
	out := map[string]bool{}
	for _, o := range s.informers.ListResources(s.def.GVK.GroupKind(), "") {
		out[o.GetNamespace()] = true
	}
	return slices.Collect(maps.Keys(out))
}

// targets adapts the informer manager to what the wiring reads.
type targets struct{ informers *watch.Manager }

// Target implements wiring.Source.
func (t targets) Target(wire, namespace, name string) *unstructured.Unstructured {
	u, ok := t.informers.Target(wire, namespace, name)
	if !ok {
		return nil
	}
	return u
}

// Wrote implements wiring.Source.
func (t targets) Wrote(wire string, u *unstructured.Unstructured) { t.informers.WroteTarget(wire, u) }

// TargetsSynced implements wiring.Source.
func (t targets) TargetsSynced(wire string) bool { return t.informers.TargetsSynced(wire) }

// aliveIn lists the custom resources of a namespace that may have entries in objects of others: those that are not
// being deleted. While the cache is not complete nobody knows (invariant 4).
func (s *stacks[C, F]) aliveIn(namespace string) ([]client.Object, error) {
	gk := s.def.GVK.GroupKind()
	if !s.informers.ResourceSynced(gk) {
		return nil, wiring.ErrUnknown
	}
	listed := s.informers.ListResources(gk, namespace)
	for _, o := range listed {
		if _, bad := o.(*watch.Undecodable); bad {
			return nil, wiring.ErrUnknown // It may have entries, and what it wants cannot be read.
		}
	}
	all := reader.Alive(listed)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, o := range all {
		// The status that waits for the wires' outcome counts as written.
		if pending, ok := s.pendingReady[client.ObjectKeyFromObject(o)]; ok && pending.cr.GetUID() == o.GetUID() {
			all[i] = pending.cr
		}
	}
	return all, nil
}

// wired takes the outcomes of a wire for one custom resource and enqueues it, so that its status reports them.
func (s *stacks[C, F]) wired(owner string, target plan.Key, outcomes []wiring.Outcome) {
	namespace, name, ok := parseOwner(owner, s.def.GVK.GroupKind())
	if !ok {
		return
	}
	key := client.ObjectKey{Namespace: namespace, Name: name}
	_, exists := s.informers.Resource(s.def.GVK.GroupKind(), namespace, name)
	if s.keepOutcomes(key, exists, target, outcomes) {
		s.queue.add(namespace, name)
	}
}

// keepOutcomes takes the outcomes into the state of a custom resource, unless it does not exist.
func (s *stacks[C, F]) keepOutcomes(key client.ObjectKey, exists bool, target plan.Key, outcomes []wiring.Outcome) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.states[key]
	if !ok && exists {
		// After a start, or the gain of a shard, the wire may be faster than the first reconcile, and does not report this again.
		l, ok = newState(""), true
		l.stack = s.hashOf(key)
		s.states[key] = l
	}
	if ok {
		// The map is replaced and never changed, since a reconcile may be reading it.
		next := map[string][]wiring.Outcome{}
		for k, v := range l.wiring {
			next[k] = v
		}
		delete(next, target.String())
		if len(outcomes) > 0 {
			next[target.String()] = outcomes
		}
		l.wiring = next
	}
	return ok
}
