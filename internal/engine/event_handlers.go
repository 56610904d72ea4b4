package engine

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/inventory"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/status"
)

// resourceChanged enqueues a custom resource, its siblings and the wires of its namespace; the echo of our own status
// write enqueues nobody, but for siblings that may have told of what it changed.
func (s *stacks[C, F]) resourceChanged(old, now metav1.Object, listed bool) {
	one := now
	if one == nil {
		one = old
	}
	key := client.ObjectKey{Namespace: one.GetNamespace(), Name: one.GetName()}
	s.trackUnconfirmed(key, old, now, listed)
	if now != nil {
		s.mu.Lock()
		state, known := s.states[key]
		echo := known && state.statusVersion == now.GetResourceVersion()
		s.mu.Unlock()
		if old != nil {
			s.readyChanged(key, old, now)
		}
		if echo {
			return
		}
	}
	if old != nil && now != nil && old.GetGeneration() != now.GetGeneration() {
		s.queue.addWith(prioritySpec, key.Namespace, key.Name)
	} else {
		s.queue.add(key.Namespace, key.Name)
	}
	if s.def.WakeSiblings && (old == nil || now == nil) {
		s.enqueueNamespace(key.Namespace)
	}
	if old == nil || now == nil {
		s.enqueueDependents(key)
	}
	s.enqueueWires(key.Namespace)
	if old != nil && (now == nil || now.GetUID() != old.GetUID()) {
		s.enqueueFinalization(key.Namespace, string(old.GetUID()))
	}
}

// readyChanged enqueues those that may wait for a custom resource to be Ready, or tell of it.
func (s *stacks[C, F]) readyChanged(key client.ObjectKey, old, now metav1.Object) {
	if s.def.WakeSiblings && s.ready(old) != s.ready(now) {
		s.enqueueSiblings(key)
	}
	if s.def.Depends != nil && (s.ready(old) != s.ready(now) || old.GetGeneration() != now.GetGeneration()) {
		s.enqueueDependents(key)
	}
}

func (s *stacks[C, F]) childChanged(old, now *observe.Object) {
	for _, o := range []*observe.Object{old, now} {
		if o == nil {
			continue
		}
		for _, owner := range s.claimedBy(o) {
			if now == nil && o.Completed {
				s.finished(owner, o)
			}
			s.queue.addWith(priorityOf(old, now), owner.Namespace, owner.Name)
		}
		s.enqueueConflictWaiters(o.Key)
		if now == nil {
			s.actor.Tracker.Forget(o.Key)
		}
		if ref := metav1.GetControllerOfNoCopy(&o.ObjectMeta); ref != nil && now == nil && ref.Kind == inventory.GVK.Kind {
			s.enqueueFinalizationsOf(o.Labels[keeper.StackLabel])
		}
	}
}

// claimedBy are the custom resources that a child says it is of: by its annotation, and by its label where somebody has changed one of the two.
func (s *stacks[C, F]) claimedBy(o *observe.Object) (out []client.ObjectKey) {
	hash := o.Labels[keeper.StackLabel]
	if ns, name, ok := parseOwner(o.Annotations[keeper.OwnerAnnotation], s.def.GVK.GroupKind()); ok {
		key := client.ObjectKey{Namespace: ns, Name: name}
		out = append(out, key)
		if s.hashOf(key) == hash {
			return out
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, state := range s.states {
		if state.stack == hash && !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	return out
}

// priorityOf is the priority of a reconciliation that a change of a child causes.
func priorityOf(old, now *observe.Object) int {
	if now == nil || old != nil && old.Health.Status != now.Health.Status {
		return priorityHealth
	}
	return priorityDefault
}

// finished remembers that a Job had completed when it was removed, while its custom resource is known: no reconciliation need have seen
// it complete.
func (s *stacks[C, F]) finished(owner client.ObjectKey, job *observe.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.states[owner]
	if state == nil {
		return
	}
	if state.finished == nil {
		state.finished = map[plan.Key]types.UID{}
	}
	state.finished[job.Key] = job.UID
}

// completed says that a Job of this UID has completed: as the inventory has it, which then need not be remembered any more, or when it
// was removed.
func (s *stacks[C, F]) completed(state *reconcileState, key plan.Key, uid types.UID, recorded bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if recorded {
		delete(state.finished, key)
		return true
	}
	was, known := state.finished[key]
	return known && was == uid
}

func (s *stacks[C, F]) enqueueConflictWaiters(object plan.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.conflictWaiters[object] {
		s.queue.add(key.Namespace, key.Name)
	}
}

func (s *stacks[C, F]) enqueue(namespace, name string) { s.queue.add(namespace, name) }

func (s *stacks[C, F]) enqueueAll() {
	s.enqueueNamespace("")
	s.enqueueKnown()
}

func (s *stacks[C, F]) enqueueNamespace(namespace string) {
	for _, o := range s.informers.ListResources(s.def.GVK.GroupKind(), namespace) {
		s.queue.add(o.GetNamespace(), o.GetName())
	}
}

// enqueueSiblings enqueues the other custom resources of a namespace, which may have told of this one.
func (s *stacks[C, F]) enqueueSiblings(key client.ObjectKey) {
	for _, o := range s.informers.ListResources(s.def.GVK.GroupKind(), key.Namespace) {
		if o.GetName() != key.Name {
			s.queue.add(o.GetNamespace(), o.GetName())
		}
	}
}

// enqueueDependents enqueues the other custom resources of a namespace that depend on some of its kind there.
func (s *stacks[C, F]) enqueueDependents(key client.ObjectKey) {
	if s.def.Depends == nil {
		return
	}
	for _, o := range s.informers.ListResources(s.def.GVK.GroupKind(), key.Namespace) {
		if cr, ok := o.(C); ok && o.GetName() != key.Name && s.def.Depends(cr) {
			s.queue.add(o.GetNamespace(), o.GetName())
		}
	}
}

// ready says that a custom resource is told Ready.
func (s *stacks[C, F]) ready(o metav1.Object) bool {
	cr, ok := o.(C)
	return ok && meta.IsStatusConditionTrue(*s.def.Common(cr).Conditions, status.ConditionReady)
}

func (s *stacks[C, F]) enqueueWires(namespace string) {
	for _, w := range s.wires {
		w.enqueueNamespace(namespace)
	}
}
