package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Typed converts a typed object for the plan. Its fields are plain API types, which always convert.
func Typed(gvk schema.GroupVersionKind, obj any) Object {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		panic(fmt.Sprintf("bug: %s does not convert: %v", gvk.Kind, err))
	}
	delete(content, "status")
	prune(content)
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk)
	return Object{Desired: u}
}

// prune takes out what Go types print and nobody declared: nulls, such as creationTimestamp, and the empty structs
// resources and strategy. Other empty structs may mean something, such as a selector that selects everything.
func prune(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			m, isMap := item.(map[string]any)
			if item == nil || isMap && len(m) == 0 && (key == "resources" || key == "strategy") {
				delete(v, key)
				continue
			}
			prune(item)
		}
	case []any:
		for _, item := range v {
			prune(item)
		}
	}
}

// Foreign makes an object of a third party's kind, which is left out while its API is not served.
func Foreign(gvk schema.GroupVersionKind, namespace, name string, labels map[string]string, spec map[string]any) Object {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(namespace)
	u.SetName(name)
	if len(labels) > 0 {
		u.SetLabels(labels)
	}
	return Object{Desired: u, Optional: true}
}
