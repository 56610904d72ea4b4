package watch

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
// every stored object first; it may be nil. A second declaration for the same kind and controller adds its notify. When the
// API is no longer served, the store is dropped without notifications.
func (m *Manager) WatchChildren(gvk schema.GroupVersionKind, controller string, notify func(old, new *observe.Object)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	gk := gvk.GroupKind()
	if m.children[controller] == nil {
		m.children[controller] = map[schema.GroupKind]*informer{}
	}
	inf := m.children[controller][gk]
	switch {
	case inf == nil:
		inf = m.childInformer(gvk, controller)
		// The mutation cache comes first, so that it has usually dropped the write by the time notify reads the child.
		inf.handlers = append(inf.handlers, m.mutationObserver(controller))
		m.children[controller][gk] = inf
	case inf.gvk != gvk && !m.servesLocked(inf.gvk) && m.servesLocked(gvk):
		// An upgrade of the cluster has removed the watched version.
		m.startOrStopLocked(inf)
		handlers := inf.handlers
		inf = m.childInformer(gvk, controller)
		inf.handlers = handlers
		m.children[controller][gk] = inf
	}
	if notify != nil {
		m.addEventHandlerLocked(inf, handler(asChild, notify))
	}
	m.startOrStopLocked(inf)
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
	return &informer{
		gvk: gvk, labelSelector: keeper.ControllerLabel + "=" + controller, fullObject: health.NeedsStatus(gvk.GroupKind()), typed: true,
		transform: func(obj any) any { return transformChild(gvk, obj) }, indexers: childIndexers,
		onStop: func() { m.mutations.removeKind(controller, gvk.GroupKind()) },
	}
}

func (m *Manager) servesLocked(gvk schema.GroupVersionKind) bool {
	_, served := m.opts.Catalog.Lookup(gvk)
	return served
}

// mutationObserver drops the writes that the cache has observed. Unlike notify it receives every event, also those that do not
// change the object.
func (m *Manager) mutationObserver(controller string) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if o, ok := obj.(*observe.Object); ok {
				m.mutations.observe(controller, o, false)
			}
		},
		UpdateFunc: func(_, obj any) {
			if o, ok := obj.(*observe.Object); ok {
				m.mutations.observe(controller, o, false)
			}
		},
		DeleteFunc: func(obj any) {
			if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = t.Obj
			}
			if o, ok := obj.(*observe.Object); ok {
				m.mutations.observe(controller, o, true)
			}
		},
	}
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

// Child returns a child as cached, or as the engine last wrote it if the cache has not observed that write.
func (m *Manager) Child(controller string, key plan.Key) (*observe.Object, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	o := m.childLocked(controller, key)
	return o, o != nil
}

func (m *Manager) childLocked(controller string, key plan.Key) *observe.Object {
	inf := m.children[controller][key.GroupKind]
	return m.mutations.lookup(controller, key, func() string { return inf.lastSyncResourceVersion(key.Namespace) }, func() *observe.Object {
		cached, _ := inf.get(key.Namespace, key.Name).(*observe.Object)
		return cached
	})
}

// lastSyncResourceVersion returns the resource version that the store has synced a namespace to; empty if unknown.
func (inf *informer) lastSyncResourceVersion(namespace string) string {
	if inf == nil || inf.running == nil {
		return ""
	}
	shared := inf.running.forNamespace(namespace)
	if shared == nil || !shared.HasSynced() {
		return ""
	}
	return shared.GetStore().LastStoreSyncResourceVersion()
}

// ChildrenOfStack returns the children that carry the label of a stack, in no particular order.
func (m *Manager) ChildrenOfStack(controller, stackHash string) []*observe.Object {
	m.mu.RLock()
	defer m.mu.RUnlock()
	// A write that the cache has not observed replaces the cached object, even where only one of the two has the label.
	var out []*observe.Object
	var overridden map[plan.Key]bool
	m.mutations.each(controller, func(key plan.Key, w mutation) {
		inf := m.children[controller][key.GroupKind]
		// The version must be read before the object, as in lookup.
		lastSync := inf.lastSyncResourceVersion(key.Namespace)
		cached, _ := inf.get(key.Namespace, key.Name).(*observe.Object)
		if overridden == nil {
			overridden = map[plan.Key]bool{}
		}
		overridden[key] = true
		if o := w.view(cached, lastSync); o != nil && o.Labels[keeper.StackLabel] == stackHash {
			out = append(out, o)
		}
	})
	for _, inf := range m.children[controller] {
		inf.byIndex(stackIndex, stackHash, func(obj any) {
			if o, ok := obj.(*observe.Object); ok && !overridden[o.Key] {
				out = append(out, o)
			}
		})
	}
	return out
}

// ChildSynced reports whether the watch on a declared kind has synced. It is true while the API is not served, and false for
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
	m.recordMutation(controller, o.Key, mutation{object: o, uid: o.UID, rv: o.ResourceVersion})
}

// recordMutation takes the locks in the order in which every method takes them: the manager's, then the mutation cache's.
func (m *Manager) recordMutation(controller string, key plan.Key, w mutation) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	inf := m.children[controller][key.GroupKind]
	m.mutations.put(controller, key, w, func() (*observe.Object, string) {
		cached, _ := inf.get(key.Namespace, key.Name).(*observe.Object)
		return cached, inf.lastSyncResourceVersion(key.Namespace)
	})
}
