package watch

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

const stackIndex = "stack"

// childIndexers index children by their stack.
var childIndexers = cache.Indexers{
	stackIndex: func(obj any) ([]string, error) {
		if o, ok := obj.(*observe.Object); ok {
			if hash := o.Labels[keeper.StackLabel]; hash != "" {
				return []string{hash}, nil
			}
		}
		return nil, nil
	},
}

// WatchChildren declares a watch on the objects of a kind that carry the label of a controller. The API server sends metadata
// only, unless the health of the kind is in its status. notify receives nil for a missing old or new state, and is called for
// every stored object first; it may be nil. A second declaration for the same kind and controller adds its notify. The watch is in
// any served version, the declared one if there is a choice. When no version is served any more, the store is dropped without notifications.
func (m *Manager) WatchChildren(gvk schema.GroupVersionKind, controller string, notify func(old, new *observe.Object)) {
	m.watchChildren(gvk, controller, notify, false)
}

// WatchChosenChildren is WatchChildren for a kind that a user chose. Whether the manager may watch it is no matter of its readiness, or
// whoever declares a custom resource could make the manager unready.
func (m *Manager) WatchChosenChildren(gvk schema.GroupVersionKind, controller string, notify func(old, new *observe.Object)) {
	m.watchChildren(gvk, controller, notify, true)
}

func (m *Manager) watchChildren(gvk schema.GroupVersionKind, controller string, notify func(old, new *observe.Object), chosen bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	gk := gvk.GroupKind()
	if m.children[controller] == nil {
		m.children[controller] = map[schema.GroupKind]*informer{}
	}
	inf := m.children[controller][gk]
	if inf == nil {
		inf = m.childInformer(gvk, controller)
		inf.chosen = chosen
		m.children[controller][gk] = inf
	}
	inf.declared = gvk.Version
	inf = m.inServedVersionLocked(inf)
	if notify != nil || len(inf.handlers) == 0 {
		m.addEventHandlerLocked(inf, handler(asChild, notify))
	}
	m.startOrStopLocked(inf)
}

// inServedVersionLocked returns a watch on children as it is, or in another version if an upgrade of the cluster has removed the present
// one: the version that was declared last, or else the preferred one. The objects exist in every version, so the watch ends only with the
// last one. Other watches stay in their version.
func (m *Manager) inServedVersionLocked(inf *informer) *informer {
	gk := inf.gvk.GroupKind()
	versions := m.opts.Catalog.Versions(gk)
	if inf.controller == "" || len(versions) == 0 || slices.Contains(versions, inf.gvk.Version) {
		return inf
	}
	version := versions[0]
	if slices.Contains(versions, inf.declared) {
		version = inf.declared
	}
	m.startOrStopLocked(inf)
	next := m.childInformer(gk.WithVersion(version), inf.controller)
	next.declared, next.handlers, next.chosen = inf.declared, inf.handlers, inf.chosen
	m.children[inf.controller][gk] = next
	return next
}

// StopWatchingChildren ends the watch on a kind. It drops the store without notifications, and with it the callbacks and the writes
// that the store has not observed. A later declaration begins anew.
func (m *Manager) StopWatchingChildren(gk schema.GroupKind, controller string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	inf := m.children[controller][gk]
	delete(m.children[controller], gk)
	if inf != nil && inf.running != nil {
		inf.stop()
	}
}

// childInformer returns an informer without event handlers.
func (m *Manager) childInformer(gvk schema.GroupVersionKind, controller string) *informer {
	return m.newInformer(informer{
		gvk: gvk, controller: controller, labelSelector: keeper.ControllerLabel + "=" + controller, fullObject: health.NeedsStatus(gvk.GroupKind()), typed: true,
		transform: func(obj any) any { return transformChild(gvk, obj) }, indexers: childIndexers,
	})
}

func asChild(obj any) (*observe.Object, metav1.Object) {
	o, ok := obj.(*observe.Object)
	if !ok {
		return nil, nil
	}
	return o, o
}

// transformChild is the transform of the informers of children.
func transformChild(gvk schema.GroupVersionKind, obj any) any {
	switch o := obj.(type) {
	case *observe.Object:
		return o
	case *unstructured.Unstructured:
		return observe.From(o, true)
	case *metav1.PartialObjectMetadata:
		return observe.FromMetadata(gvk, o)
	case metav1.Object:
		return observe.FromTyped(gvk, o)
	}
	return obj
}

// Child returns a child as cached, or as the engine last wrote it if the cache has not observed that write. A child that the engine
// has deleted is terminating. Whoever concludes from a missing child that it does not exist asks ChildSynced first: a watch that opens after
// the child was looked up would make a child that exists one that does not.
func (m *Manager) Child(controller string, key plan.Key) (*observe.Object, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	inf := m.children[controller][key.GroupKind]
	o, ok := inf.get(key.Namespace, key.Name).(*observe.Object)
	if !ok {
		return nil, false
	}
	return m.asDeleted(inf, o), true
}

// ChildDeleted reports whether the API server has acknowledged that the engine deleted a child.
func (m *Manager) ChildDeleted(controller string, key plan.Key, uid types.UID) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	inf := m.children[controller][key.GroupKind]
	return inf != nil && inf.mutations.WasDeleted(types.NamespacedName{Namespace: key.Namespace, Name: key.Name}, uid)
}

// asDeleted returns a child that the engine has deleted as terminating, though the cache has not observed the deletion.
func (m *Manager) asDeleted(inf *informer, o *observe.Object) *observe.Object {
	if o.Terminating() || !inf.mutations.WasDeleted(types.NamespacedName{Namespace: o.Namespace, Name: o.Name}, o.UID) {
		return o
	}
	return o.AsTerminating(m.clock.Now())
}

// ChildrenOfStack returns the children that carry the label of a stack, as Child does, in no particular order.
func (m *Manager) ChildrenOfStack(controller, stackHash string) []*observe.Object {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []*observe.Object
	for _, inf := range m.children[controller] {
		inf.byIndex(stackIndex, stackHash, func(obj metav1.Object) {
			if o, ok := obj.(*observe.Object); ok {
				out = append(out, m.asDeleted(inf, o))
			}
		})
	}
	return out
}

// ChildSynced reports whether the watch on a declared kind has synced. It is true while no version of the kind is served, and false for
// a kind that was never declared.
func (m *Manager) ChildSynced(gk schema.GroupKind, controller string) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.hasSyncedLocked(m.children[controller][gk])
}

// ChildWatchError returns the error that keeps the watch on a declared kind from syncing; nil if it has synced or was not
// tried yet.
func (m *Manager) ChildWatchError(gk schema.GroupKind, controller string) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	inf := m.children[controller][gk]
	if inf == nil || inf.running == nil || m.hasSyncedLocked(inf) {
		return nil
	}
	return inf.running.watchError()
}

// Wrote records the response of a create or an apply. It overrides the cache until the cache has observed the write.
func (m *Manager) Wrote(controller string, o *observe.Object) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	m.children[controller][o.Key.GroupKind].wrote(o)
}

// Deleted records that the API server has acknowledged a deletion.
func (m *Manager) Deleted(controller string, key plan.Key, uid types.UID) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if inf := m.children[controller][key.GroupKind]; inf != nil {
		inf.mutations.Deleted(types.NamespacedName{Namespace: key.Namespace, Name: key.Name}, uid)
	}
}
