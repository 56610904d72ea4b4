package watch

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// target marks an object that is stripped already, because a transform may meet an object twice.
type target struct {
	*unstructured.Unstructured
}

// Targets declares, under a name, a watch on objects of others that match selectors. Their managedFields are dropped,
// and strip, unless nil, reduces what is left. A second declaration of the name adds its notify.
func (h *Hub) Targets(name string, gvk schema.GroupVersionKind, labelSelector, fieldSelector string,
	strip func(*unstructured.Unstructured) *unstructured.Unstructured, notify func(old, new *unstructured.Unstructured),
) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.targets[name]
	if f == nil {
		f = &feed{
			gvk: gvk, labelSelector: labelSelector, fieldSelector: fieldSelector, whole: true,
			indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
			reduce:   func(obj any) any { return stripTarget(strip, obj) },
		}
		h.targets[name] = f
	}
	if notify != nil {
		h.addHandlerLocked(f, handler(asTarget, notify))
	}
	h.adjustLocked(f)
}

func asTarget(obj any) (*unstructured.Unstructured, metav1.Object) {
	t, ok := obj.(*target)
	if !ok {
		return nil, nil
	}
	return t.Unstructured, t
}

// stripTarget is the transform of the caches of targets.
func stripTarget(strip func(*unstructured.Unstructured) *unstructured.Unstructured, obj any) any {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj
	}
	u.SetManagedFields(nil)
	if strip != nil {
		if s := strip(u); s != nil {
			u = s
		}
	}
	return &target{Unstructured: u}
}

// Target returns one object of the declared watch.
func (h *Hub) Target(name, namespace, objName string) (*unstructured.Unstructured, bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	t, ok := h.targets[name].get(namespace, objName).(*target)
	if !ok {
		return nil, false
	}
	return t.Unstructured, true
}

// ListTargets returns the objects of the declared watch in a namespace, or in all if it is empty, in no order.
func (h *Hub) ListTargets(name, namespace string) []*unstructured.Unstructured {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var out []*unstructured.Unstructured
	h.targets[name].inNamespace(namespace, func(obj any) {
		if t, ok := obj.(*target); ok {
			out = append(out, t.Unstructured)
		}
	})
	return out
}

// TargetsSynced says whether every object of the declared watch is known. It is true while the API is not served.
func (h *Hub) TargetsSynced(name string) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.syncedLocked(h.targets[name])
}
