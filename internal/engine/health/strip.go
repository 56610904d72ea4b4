package health

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Strip returns a copy reduced to what Of reads, for caches: apiVersion, kind, the whole metadata, and the few fields that
// the rule of the kind reads. The metadata is left whole, since to reduce it (and to hash managedFields before they are
// dropped) belongs to the cache's own transform. The copy shares nothing that can be changed with the original.
func Strip(obj *unstructured.Unstructured) *unstructured.Unstructured {
	if obj == nil || obj.Object == nil {
		return obj
	}
	out := map[string]any{}
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		if v, found := obj.Object[name]; found {
			out[name] = clone(v)
		}
	}
	gk := obj.GroupVersionKind().GroupKind()
	if !NeedsStatus(gk) {
		return &unstructured.Unstructured{Object: out}
	}
	for _, path := range append(genericFields, rules[gk].fields...) {
		project(out, obj.Object, strings.Split(path, "."))
	}
	if gk == (schema.GroupKind{Kind: "Service"}) && obj.Object["spec"] != nil {
		// For controllers that keep a nodePort where the port that it belongs to changes.
		if kind, _, _ := unstructured.NestedString(obj.Object, "spec", "type"); kind != "ClusterIP" {
			for _, field := range []string{"name", "port", "nodePort"} {
				project(out, obj.Object, []string{"spec", "ports", "*", field})
			}
		}
	}
	if gk == inferenceService {
		// For controllers that tell where a model is reached, in which state it is, and what runs it.
		told := []string{"status.url", "status.deploymentMode", "status.modelStatus.states.activeModelState"}
		for _, path := range append(told, modelFields...) {
			project(out, obj.Object, strings.Split(path, "."))
		}
	}
	if gatewayRoutes[gk] {
		// For controllers that tell whether a Gateway has accepted the route as it is now, and to which Services it leads.
		for _, field := range []string{"type", "status", "reason", "observedGeneration"} {
			project(out, obj.Object, []string{"status", "parents", "*", "conditions", "*", field})
		}
		project(out, obj.Object, []string{"spec", "rules", "*", "backendRefs", "*", "name"})
		project(out, obj.Object, []string{"spec", "rules", "*", "filters", "*", "requestMirror", "backendRef", "name"})
	}
	if gk == route {
		// The host is for controllers that tell where a service is reached.
		for _, path := range append(conditionFields("status.ingress.*."), "status.ingress.*.host") {
			project(out, obj.Object, strings.Split(path, "."))
		}
	}
	return &unstructured.Unstructured{Object: out}
}

// genericFields are the paths that are read of every kind with a status. The slice is full, so that appending copies it.
var genericFields = func() []string {
	fields := append(conditionFields("status."), "status.observedGeneration")
	return fields[:len(fields):len(fields)]
}()

// conditionFields are the paths of the conditions below a prefix. Their times are not among them, so that the heartbeat of
// a Node or a probe leaves the stripped object as it was.
func conditionFields(prefix string) []string {
	var out []string
	for _, field := range []string{"type", "status", "reason", "message", "observedGeneration"} {
		out = append(out, prefix+"conditions.*."+field)
	}
	return out
}

// project copies what is at a path of one object into another, which has been made by project alone. Where the object
// has another shape than the path, an empty value of the same type is left, so that its health stays what it was.
func project(to, from map[string]any, path []string) {
	v, found := from[path[0]]
	if !found {
		return
	}
	if len(path) == 1 {
		to[path[0]] = scalar(v)
		return
	}
	if path[1] == "*" {
		items, ok := v.([]any)
		if !ok {
			to[path[0]] = hollow(v)
			return
		}
		kept, _ := to[path[0]].([]any)
		if len(kept) != len(items) {
			kept = make([]any, len(items))
			to[path[0]] = kept
		}
		for i, item := range items {
			m, ok := item.(map[string]any)
			if !ok {
				continue
			}
			if kept[i] == nil {
				kept[i] = map[string]any{}
			}
			project(kept[i].(map[string]any), m, path[2:])
		}
		return
	}
	m, ok := v.(map[string]any)
	if !ok {
		to[path[0]] = hollow(v)
		return
	}
	below, ok := to[path[0]].(map[string]any)
	if !ok {
		below = map[string]any{}
		to[path[0]] = below
	}
	project(below, m, path[1:])
}

// scalar returns a value for a leaf, and a hollow one for a map or a list, which no rule reads as a leaf.
func scalar(v any) any {
	switch v.(type) {
	case map[string]any, []any:
		return hollow(v)
	}
	return v
}

// hollow returns an empty value of the same type for a map, a list or a string, and other values as they are.
func hollow(v any) any {
	switch v.(type) {
	case map[string]any:
		return map[string]any{}
	case []any:
		return []any{}
	case string:
		return ""
	}
	return v
}

// clone copies maps and lists. DeepCopyJSON would panic on a Go int, which no decoder makes but a test may.
func clone(v any) any {
	switch t := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(t))
		for k, e := range t {
			out[k] = clone(e)
		}
		return out
	case []any:
		out := make([]any, len(t))
		for i, e := range t {
			out[i] = clone(e)
		}
		return out
	}
	return v
}
