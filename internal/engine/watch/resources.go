package watch

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"mlkeeper.dev/internal/engine/pack"
)

// Undecodable is stored in place of a custom resource that cannot be decoded, so that one invalid object does not block the
// informer of all others (invariant 17).
type Undecodable struct {
	// Unstructured has the metadata and the conditions.
	*unstructured.Unstructured
	// Err is the error of the decoder.
	Err error
}

const (
	// maxConditions is the number of bytes of the conditions of a custom resource that cannot be decoded. The engine sets three, and keeps others.
	maxConditions = 64 << 10
	// maxDecodeError is the number of bytes of the error of a decoder, which may quote what it could not decode.
	maxDecodeError = 4 << 10
)

// newUndecodable keeps of a custom resource what tells that it cannot be decoded. Its spec may have more than a megabyte.
func newUndecodable(u *unstructured.Unstructured, err error) *Undecodable {
	kept := map[string]any{}
	for _, field := range []string{"apiVersion", "kind", "metadata"} {
		if value, found := u.Object[field]; found {
			kept[field] = value
		}
	}
	conditions, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "conditions")
	if raw, unreadable := json.Marshal(conditions); conditions != nil && unreadable == nil && len(raw) <= maxConditions {
		kept["status"] = map[string]any{"conditions": conditions}
	}
	if text := err.Error(); len(text) > maxDecodeError {
		err = errors.New(strings.ToValidUTF8(text[:maxDecodeError], ""))
	}
	return &Undecodable{Unstructured: &unstructured.Unstructured{Object: kept}, Err: err}
}

// valueIndex is the index that a declaration of WatchResources may add.
const valueIndex = "value"

var errIdentityChanged = errors.New("decoding changed the identity of the object")

// Notify receives nil for a missing old or new state. isInInitialList says that the new state comes from the initial list of
// the watch, which may be outdated if the API server that answered lags behind.
type Notify func(old, new metav1.Object, isInInitialList bool)

// WatchResources declares a watch on custom resources. decode turns an object that was read, without its managedFields, into the
// one that is stored, with as much of its metadata as is needed (observe.Metadata); it owns its argument, and reduces that, too. A second
// declaration of the kind adds its notify. index, which may be nil, returns the value under which IndexedResources finds a resource.
func (m *Manager) WatchResources(gvk schema.GroupVersionKind, decode func(*unstructured.Unstructured) (metav1.Object, error),
	notify Notify, index func(metav1.Object) string,
) {
	m.mu.Lock()
	defer m.mu.Unlock()
	inf := m.resources[gvk.GroupKind()]
	if inf == nil {
		inf = m.newInformer(informer{
			gvk: gvk, fullObject: true, indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
			transform: func(obj any) any { return transformResource(decode, obj) },
		})
		if index != nil {
			inf.indexers[valueIndex] = func(obj any) ([]string, error) {
				o, ok := obj.(metav1.Object)
				if !ok {
					return nil, nil
				}
				return []string{index(o)}, nil
			}
		}
		m.resources[gvk.GroupKind()] = inf
	}
	if notify != nil {
		m.addEventHandlerLocked(inf, initialListHandler(asResource, notify))
	}
	m.startOrStopLocked(inf)
}

func asResource(obj any) (metav1.Object, metav1.Object) {
	o, ok := obj.(metav1.Object)
	if !ok {
		return nil, nil
	}
	return o, o
}

// transformResource is the transform of the informers of custom resources.
func transformResource(decode func(*unstructured.Unstructured) (metav1.Object, error), obj any) any {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj
	}
	u.SetManagedFields(nil)
	out, err := tryDecode(decode, u)
	if err != nil {
		return newUndecodable(u, err)
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
		return nil, errIdentityChanged
	}
	return out, nil
}

// Resource returns a custom resource, or an *Undecodable, as cached, or as the engine last wrote it if the cache has not observed
// that write.
func (m *Manager) Resource(gk schema.GroupKind, namespace, name string) (metav1.Object, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	o := m.resources[gk].get(namespace, name)
	return o, o != nil
}

// WroteResource records the response of a write: an object as decode returns it, or as it is before that.
func (m *Manager) WroteResource(gk schema.GroupKind, o metav1.Object) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	m.resources[gk].wrote(o)
}

// ListResources returns the custom resources of a namespace, as Resource does, in no particular order; an empty namespace means all.
func (m *Manager) ListResources(gk schema.GroupKind, namespace string) []metav1.Object {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []metav1.Object
	m.resources[gk].inNamespace(namespace, func(o metav1.Object) { out = append(out, o) })
	return out
}

// IndexedResources returns the custom resources that the index of their declaration maps to a value, in no particular order.
func (m *Manager) IndexedResources(gk schema.GroupKind, value string) []metav1.Object {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []metav1.Object
	m.resources[gk].byIndex(valueIndex, value, func(o metav1.Object) { out = append(out, o) })
	return out
}

// ResourceSynced reports whether the watch on a declared kind has synced. It is true while the API is not served.
func (m *Manager) ResourceSynced(gk schema.GroupKind) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.hasSyncedLocked(m.resources[gk])
}
