package cli

import (
	"bytes"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"mlkeeper.dev/internal/engine/observe"
)

// keepDefaulted puts back what the API server had defaulted in the values that an apply replaces as a whole: where
// everything that is declared in such a value is there already, the rest are defaults, and the live value stays. It changes
// after and returns it.
func keepDefaulted(live, after *unstructured.Unstructured) *unstructured.Unstructured {
	entries := after.GetManagedFields()
	for i := range entries {
		e := &entries[i]
		if e.Manager != observe.FieldManager || e.Operation != metav1.ManagedFieldsOperationApply || e.FieldsV1 == nil {
			continue
		}
		var set fieldpath.Set
		if set.FromJSON(bytes.NewReader(e.FieldsV1.GetRawBytes())) != nil {
			continue
		}
		for path := range set.Leaves().All() {
			was, found := valueAt(live.Object, path)
			if is, declared := valueAt(after.Object, path); found && declared && !scalar(is) && isSubset(is, was) {
				setValue(after.Object, path, was)
			}
		}
	}
	return after
}

func scalar(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// isSubset says that a value holds nothing that the other does not hold too.
func isSubset(inner, outer any) bool {
	switch in := inner.(type) {
	case map[string]any:
		out, ok := outer.(map[string]any)
		if !ok {
			return false
		}
		for key, value := range in {
			if !isSubset(value, out[key]) {
				return false
			}
		}
		return true
	case []any:
		out, ok := outer.([]any)
		if !ok || len(in) != len(out) {
			return false
		}
		for i := range in {
			if !isSubset(in[i], out[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(inner, outer)
}

// valueAt finds the value of a path.
func valueAt(content any, path fieldpath.Path) (any, bool) {
	for _, element := range path {
		next, _, ok := childOf(content, element)
		if !ok {
			return nil, false
		}
		content = next
	}
	return content, true
}

// setValue replaces the value of a path that is there.
func setValue(content any, path fieldpath.Path, value any) {
	for i, element := range path {
		next, set, ok := childOf(content, element)
		if !ok {
			return
		}
		if i == len(path)-1 {
			set(value)
			return
		}
		content = next
	}
}

// childOf goes one element down and says how to replace what is there.
func childOf(content any, element fieldpath.PathElement) (next any, set func(any), ok bool) {
	switch c := content.(type) {
	case map[string]any:
		if element.FieldName == nil {
			return nil, nil, false
		}
		next, ok = c[*element.FieldName]
		return next, func(v any) { c[*element.FieldName] = v }, ok
	case []any:
		for i, item := range c {
			if element.Index != nil && *element.Index == i || element.Key != nil && hasKey(item, element) ||
				element.Value != nil && reflect.DeepEqual((*element.Value).Unstructured(), item) {
				return item, func(v any) { c[i] = v }, true
			}
		}
	}
	return nil, nil, false
}

// hasKey says that an item of a keyed list has the fields of a key; a field that the item leaves out fits any.
func hasKey(item any, element fieldpath.PathElement) bool {
	m, ok := item.(map[string]any)
	if !ok {
		return false
	}
	for _, field := range *element.Key {
		if value, found := m[field.Name]; found && !reflect.DeepEqual(value, field.Value.Unstructured()) {
			return false
		}
	}
	return true
}
