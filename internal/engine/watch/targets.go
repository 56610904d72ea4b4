package watch

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"mlkeeper.dev/internal/engine/wiring"
)

// target marks an object that is already transformed, because an informer may call the transform twice for one object.
type target struct {
	*unstructured.Unstructured
}

// WatchTargets declares, under a name, a watch on the objects of others that match the selectors. The objects are stored without
// their managedFields, but for the claims of a wire. strip, which may be nil, removes further fields. A second declaration of the name
// adds its notify.
func (m *Manager) WatchTargets(name string, gvk schema.GroupVersionKind, labelSelector, fieldSelector string,
	strip func(*unstructured.Unstructured) *unstructured.Unstructured, notify func(old, new *unstructured.Unstructured),
) {
	m.mu.Lock()
	defer m.mu.Unlock()
	inf := m.targets[name]
	if inf == nil {
		inf = m.newInformer(informer{
			gvk: gvk, labelSelector: labelSelector, fieldSelector: fieldSelector, fullObject: true,
			indexers:  cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
			transform: func(obj any) any { return transformTarget(strip, obj) },
		})
		m.targets[name] = inf
	}
	if notify != nil {
		m.addEventHandlerLocked(inf, handler(asTarget, notify))
	}
	m.startOrStopLocked(inf)
}

func asTarget(obj any) (*unstructured.Unstructured, metav1.Object) {
	t, ok := obj.(*target)
	if !ok {
		return nil, nil
	}
	return t.Unstructured, t
}

// transformTarget is the transform of the informers of targets.
func transformTarget(strip func(*unstructured.Unstructured) *unstructured.Unstructured, obj any) any {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj
	}
	wiring.KeepClaims(u)
	if strip != nil {
		if s := strip(u); s != nil {
			u = s
		}
	}
	return &target{Unstructured: u}
}

// Target returns one object of a declared watch, as cached, or as the engine last wrote it if the cache has not observed that write.
func (m *Manager) Target(name, namespace, objName string) (*unstructured.Unstructured, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	t, ok := m.targets[name].get(namespace, objName).(*target)
	if !ok {
		return nil, false
	}
	return t.Unstructured, true
}

// WroteTarget records the response of a write of an object that matches the selectors. It owns the object.
func (m *Manager) WroteTarget(name string, u *unstructured.Unstructured) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	m.targets[name].wrote(u)
}

// ListTargets returns the objects of a declared watch in a namespace, as Target does, in no particular order; an empty namespace means all.
func (m *Manager) ListTargets(name, namespace string) []*unstructured.Unstructured {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []*unstructured.Unstructured
	m.targets[name].inNamespace(namespace, func(obj metav1.Object) {
		if t, ok := obj.(*target); ok {
			out = append(out, t.Unstructured)
		}
	})
	return out
}

// TargetsSynced reports whether a declared watch has synced. It is true while the API is not served.
func (m *Manager) TargetsSynced(name string) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.hasSyncedLocked(m.targets[name])
}
