package fieldownership

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Remove returns a copy of desired without the given fields: MLKeeper cedes them. A map or list that loses its last
// element goes too, while one that was declared empty stays. The key fields of a list item go only with the whole item,
// that is when nothing else of it is left and every one of them was asked for.
func Remove(desired *unstructured.Unstructured, fields []Field) *unstructured.Unstructured {
	out := desired.DeepCopy()
	var keys []fieldpath.Path
	for _, f := range fields {
		if isKeyField(f.Path) {
			keys = append(keys, f.Path)
			continue
		}
		removePath(out.Object, f.Path)
	}
	// Inner items go first, since an outer one goes only when nothing is left inside.
	slices.SortFunc(keys, func(a, b fieldpath.Path) int { return len(b) - len(a) })
	for _, path := range keys {
		item := path[:len(path)-1]
		content, ok := find(out.Object, item)
		if m, isMap := content.(map[string]any); ok && isMap && allCeded(m, item, keys) {
			removePath(out.Object, item)
		}
	}
	return out
}

// isKeyField says that the path ends at a field by which its list item is found.
func isKeyField(path fieldpath.Path) bool {
	if len(path) < 2 {
		return false
	}
	field, item := path[len(path)-1].FieldName, path[len(path)-2].Key
	if field == nil || item == nil {
		return false
	}
	return slices.ContainsFunc(*item, func(f value.Field) bool { return f.Name == *field })
}

// allCeded says that every field left of a list item is among the ceded key fields.
func allCeded(item map[string]any, at fieldpath.Path, keys []fieldpath.Path) bool {
	for name := range item {
		ceded := slices.ContainsFunc(keys, func(path fieldpath.Path) bool {
			last := path[len(path)-1].FieldName
			return *last == name && path[:len(path)-1].Equals(at)
		})
		if !ceded {
			return false
		}
	}
	return true
}

// find returns what stands at a path.
func find(content any, path fieldpath.Path) (any, bool) {
	for _, element := range path {
		switch {
		case element.FieldName != nil:
			m, ok := content.(map[string]any)
			if !ok {
				return nil, false
			}
			if content, ok = m[*element.FieldName]; !ok {
				return nil, false
			}
		default:
			list, ok := content.([]any)
			if !ok {
				return nil, false
			}
			i := indexOf(list, element)
			if i < 0 {
				return nil, false
			}
			content = list[i]
		}
	}
	return content, true
}

// removePath removes what stands at a path and the containers that this leaves empty. It returns what is left of the content
// and whether nothing is.
func removePath(content any, path fieldpath.Path) (left any, gone bool) {
	if len(path) == 0 {
		return nil, true
	}
	switch c := content.(type) {
	case map[string]any:
		if path[0].FieldName == nil {
			return content, false
		}
		name := *path[0].FieldName
		child, ok := c[name]
		if !ok {
			return content, false
		}
		rest, empty := removePath(child, path[1:])
		if !empty {
			c[name] = rest
			return c, false
		}
		delete(c, name)
		return c, len(c) == 0
	case []any:
		i := indexOf(c, path[0])
		if i < 0 {
			return content, false
		}
		rest, empty := removePath(c[i], path[1:])
		if !empty {
			c[i] = rest
			return c, false
		}
		c = slices.Delete(c, i, i+1)
		return c, len(c) == 0
	default:
		return content, false
	}
}

// indexOf finds a list item by key or by value; -1 where there is none. The API server fills defaults into keys, such
// as the protocol of a port, so a key field that the item does not declare matches, if no other item fits better.
func indexOf(list []any, element fieldpath.PathElement) int {
	switch {
	case element.Key != nil:
		loose := -1
		for i, item := range list {
			m, ok := item.(map[string]any)
			if !ok {
				continue
			}
			exact, fits := matches(m, *element.Key)
			if exact {
				return i
			}
			if fits && loose < 0 {
				loose = i
			}
		}
		return loose
	case element.Value != nil:
		return slices.IndexFunc(list, func(item any) bool {
			return value.Equals(value.NewValueInterface(item), *element.Value)
		})
	case element.Index != nil && *element.Index >= 0 && *element.Index < len(list):
		return *element.Index
	default:
		return -1
	}
}

// matches says whether an item has the key: exactly, or in every key field that it declares and at least in one.
func matches(item map[string]any, key value.FieldList) (exact, fits bool) {
	equal := 0
	for _, field := range key {
		declared, ok := item[field.Name]
		if !ok {
			continue
		}
		if !value.Equals(value.NewValueInterface(declared), field.Value) {
			return false, false
		}
		equal++
	}
	return equal == len(key) && equal > 0, equal > 0
}
