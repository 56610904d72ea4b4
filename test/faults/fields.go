package faults

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// field is one leaf that MLKeeper manages in an object.
type field struct {
	// path names it as managedFields do, pointer as JSON patches do.
	path, pointer string
	value         any
	steps         fieldpath.Path
}

// someUID matches a UID, which is another in every run.
var someUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// declares says that the body of a POST held a field. Of a list the items are found by their keys, as in an object.
func declares(body map[string]any, f field) bool {
	if body == nil {
		return true
	}
	_, _, ok := resolve(body, f.steps)
	return ok
}

// managed lists the leaves that MLKeeper manages in an object. Its own marks are among them: what makes a child a child
// is restored like everything else.
func managed(u *unstructured.Unstructured) []field {
	var out []field
	for _, m := range u.GetManagedFields() {
		if m.Manager != ownManagers || m.Subresource != "" || m.FieldsV1 == nil {
			continue
		}
		var set fieldpath.Set
		if set.FromJSON(m.FieldsV1.GetRawReader()) != nil {
			continue
		}
		set.Leaves().Iterate(func(p fieldpath.Path) {
			at, v, ok := resolve(u.Object, p)
			ok = ok && !isKey(p)
			if ok && !slices.ContainsFunc(out, func(f field) bool { return f.pointer == at }) {
				out = append(out, field{
					path: someUID.ReplaceAllString(p.String(), "UID"), pointer: at, value: v, steps: p.Copy(),
				})
			}
		})
	}
	slices.SortFunc(out, func(a, b field) int { return strings.Compare(a.path, b.path) })
	return out
}

// isKey says that a path is one of the keys of an item in a keyed list. Another key makes another item: to change it is
// to delete one item, which is restored, and to add another, which is somebody else's.
func isKey(p fieldpath.Path) bool {
	if len(p) < 2 || p[len(p)-1].FieldName == nil || p[len(p)-2].Key == nil {
		return false
	}
	return slices.ContainsFunc(*p[len(p)-2].Key, func(f value.Field) bool { return f.Name == *p[len(p)-1].FieldName })
}

// resolve finds what a path of managedFields is in an object, as a JSON pointer and a value. The members of a set, and a
// path that leads to nothing, are left out.
func resolve(object any, p fieldpath.Path) (at string, found any, ok bool) {
	here := object
	for _, step := range p {
		switch {
		case step.FieldName != nil:
			m, isMap := here.(map[string]any)
			if !isMap {
				return "", nil, false
			}
			here, ok = m[*step.FieldName]
			at += "/" + pointer(*step.FieldName)
		case step.Key != nil:
			list, isList := here.([]any)
			if !isList {
				return "", nil, false
			}
			i := slices.IndexFunc(list, func(item any) bool { return matches(item, *step.Key) })
			if i < 0 {
				return "", nil, false
			}
			here, ok = list[i], true
			at += "/" + strconv.Itoa(i)
		default:
			return "", nil, false
		}
		if !ok {
			return "", nil, false
		}
	}
	return at, here, true
}

// matches says whether an item of a keyed list has a key. A field of the key that the item leaves out has its default,
// which only the schema knows.
func matches(item any, key value.FieldList) bool {
	m, ok := item.(map[string]any)
	if !ok {
		return false
	}
	for _, k := range key {
		if have, there := m[k.Name]; there && fmt.Sprint(have) != fmt.Sprint(k.Value.Unstructured()) {
			return false
		}
	}
	return true
}

// others are values of the same type, one of which the API server may take.
func others(v any) []any {
	switch v := v.(type) {
	case string:
		out := []any{v + "-x", "x" + v, "changed", "7", "9Mi", "eA=="}
		if n, err := strconv.Atoi(v); err == nil {
			out = append(out, strconv.Itoa(n+1))
		}
		return out
	case bool:
		return []any{!v}
	case int64:
		return []any{v + 1, v - 1}
	case float64:
		return []any{v + 1, v - 1}
	case []any:
		if len(v) > 1 {
			return []any{v[:len(v)-1]}
		}
	}
	return nil
}

// addable are the maps and keyed lists of an object that others may add to.
func addable(u *unstructured.Unstructured) []string {
	out := []string{"/metadata/labels/faults.test~1added", "/metadata/annotations/faults.test~1added"}
	switch u.GetKind() {
	case "ConfigMap", "Secret":
		out = append(out, "/data/added")
	case "Service":
		out = append(out, "/spec/ports/-")
	case "Deployment":
		out = append(out, "/spec/template/metadata/labels/faults.test~1added", "/spec/template/spec/containers/0/env/-")
	}
	return out
}

// addition is what somebody else adds at a path, and how it is taken back.
func addition(u *unstructured.Unstructured, path string) (add, away jsonOp, ok bool) {
	switch {
	case !slices.Contains(addable(u), path):
		return add, away, false
	case path == "/spec/ports/-":
		ports, _, _ := unstructured.NestedSlice(u.Object, "spec", "ports")
		return jsonOp{"add", path, map[string]any{"name": "added", "port": 9999, "protocol": "TCP"}},
			jsonOp{"remove", fmt.Sprintf("/spec/ports/%d", len(ports)), nil}, true
	case strings.HasSuffix(path, "/env/-"):
		containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
		first, _ := containers[0].(map[string]any)
		env, _ := first["env"].([]any)
		return jsonOp{"add", path, map[string]any{"name": "ADDED", "value": "by somebody"}},
			jsonOp{"remove", strings.TrimSuffix(path, "-") + strconv.Itoa(len(env)), nil}, true
	case u.GetKind() == "Secret" && path == "/data/added":
		return jsonOp{"add", path, "eA=="}, jsonOp{"remove", path, nil}, true
	}
	return jsonOp{"add", path, "by-somebody"}, jsonOp{"remove", path, nil}, true
}
