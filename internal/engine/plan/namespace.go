package plan

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// InNamespace returns the object in a namespace, or in none where it is empty. Only its metadata is a copy; the rest is shared
// with the object, and neither may be changed.
func InNamespace(u *unstructured.Unstructured, namespace string) *unstructured.Unstructured {
	if u.GetNamespace() == namespace {
		return u
	}
	out := &unstructured.Unstructured{Object: maps.Clone(u.Object)}
	metadata, _ := u.Object["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	out.Object["metadata"] = metadata
	out.SetNamespace(namespace)
	return out
}

// KeyIn names an object with its namespace: the given one where it names none, and none where its kind has none. namespaced says
// that of the kinds of which it is known.
func KeyIn(u *unstructured.Unstructured, namespace string, namespaced map[schema.GroupKind]bool) Key {
	key := KeyOf(u)
	in, known := namespaced[key.GroupKind]
	switch {
	case known && !in:
		key.Namespace = ""
	case key.Namespace == "":
		key.Namespace = namespace
	}
	return key
}
