package plan

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
