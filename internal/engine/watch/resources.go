package watch

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"mlkeeper.dev/internal/engine/pack"
)

// Undecodable is stored in place of a custom resource that does not decode, so that one bad object does not hold up all
// others (law 17).
type Undecodable struct {
	*unstructured.Unstructured
	// Err says what is wrong.
	Err error
}

// valueIndex is the index that a declaration of Resources may add.
const valueIndex = "value"

var errOtherObject = errors.New("decoding changed the identity of the object")

// Notify is called with nil where there is no old or no new state. listed says that the new state is of the list that the
// watch began with, which is of the past if the API server that answered it lags behind.
type Notify func(old, new metav1.Object, listed bool)

// Resources declares a watch on custom resources. decode turns what was read, without its managedFields, into what is
// stored; it owns its argument. A second declaration of the kind adds its notify. index, which may be nil, gives the value that
// IndexedResources finds a resource by.
func (h *Hub) Resources(gvk schema.GroupVersionKind, decode func(*unstructured.Unstructured) (metav1.Object, error),
	notify Notify, index func(metav1.Object) string,
) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.resources[gvk.GroupKind()]
	if f == nil {
		f = &feed{
			gvk: gvk, whole: true, indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
			reduce: func(obj any) any { return decodeResource(decode, obj) },
		}
		if index != nil {
			f.indexers[valueIndex] = func(obj any) ([]string, error) {
				o, ok := obj.(metav1.Object)
				if !ok {
					return nil, nil
				}
				return []string{index(o)}, nil
			}
		}
		h.resources[gvk.GroupKind()] = f
	}
	if notify != nil {
		h.addHandlerLocked(f, listingHandler(asResource, notify))
	}
	h.adjustLocked(f)
}

func asResource(obj any) (metav1.Object, metav1.Object) {
	o, ok := obj.(metav1.Object)
	if !ok {
		return nil, nil
	}
	return o, o
}

// decodeResource is the transform of the caches of custom resources.
func decodeResource(decode func(*unstructured.Unstructured) (metav1.Object, error), obj any) any {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj
	}
	u.SetManagedFields(nil)
	out, err := tryDecode(decode, u)
	if err != nil {
		return &Undecodable{Unstructured: u, Err: err}
	}
	pack.Object(out)
	return out
}

func tryDecode(decode func(*unstructured.Unstructured) (metav1.Object, error), u *unstructured.Unstructured) (out metav1.Object, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = nil, fmt.Errorf("decode %s: panic: %v", u.GetKind(), r)
		}
	}()
	out, err = decode(u)
	if err != nil {
		return nil, err
	}
	if out == nil || out.GetName() != u.GetName() || out.GetNamespace() != u.GetNamespace() ||
		out.GetUID() != u.GetUID() || out.GetResourceVersion() != u.GetResourceVersion() {
		return nil, errOtherObject
	}
	return out, nil
}

// Resource returns a custom resource, or an *Undecodable.
func (h *Hub) Resource(gk schema.GroupKind, namespace, name string) (metav1.Object, bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	o, ok := h.resources[gk].get(namespace, name).(metav1.Object)
	return o, ok
}

// ResourceReached is the resource version up to which the cache of a declared kind knows a namespace; empty while it is not complete.
func (h *Hub) ResourceReached(gk schema.GroupKind, namespace string) string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.resources[gk].reached(namespace)
}

// ListResources returns the custom resources of a namespace, or of all if it is empty, in no order.
func (h *Hub) ListResources(gk schema.GroupKind, namespace string) []metav1.Object {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var out []metav1.Object
	h.resources[gk].inNamespace(namespace, func(obj any) {
		if o, ok := obj.(metav1.Object); ok {
			out = append(out, o)
		}
	})
	return out
}

// IndexedResources returns the custom resources with a value in the index of their declaration, in no order.
func (h *Hub) IndexedResources(gk schema.GroupKind, value string) []metav1.Object {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var out []metav1.Object
	h.resources[gk].byIndex(valueIndex, value, func(obj any) {
		if o, ok := obj.(metav1.Object); ok {
			out = append(out, o)
		}
	})
	return out
}

// ResourceSynced says whether every custom resource of a declared kind is known. It is true while the API is not served.
func (h *Hub) ResourceSynced(gk schema.GroupKind) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.syncedLocked(h.resources[gk])
}
