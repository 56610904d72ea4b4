package sanitize

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Type is the schema of one kind.
type Type struct {
	Schema *schema.Schema
	Ref    schema.TypeRef
}

// Clean returns a copy of desired without the fields that its type does not declare and with the items of keyed lists
// that share a key merged into the first of them, the fields of the last one winning. It names the path of every
// change in a warning, and no value but the keys of list items.
func Clean(desired *unstructured.Unstructured, t Type) (*unstructured.Unstructured, []string) {
	out := desired.DeepCopy()
	c := &cleaner{schema: t.Schema}
	c.visit(out.Object, t.Ref, nil)
	return out, c.warnings
}

// cleaner walks an object along its schema.
type cleaner struct {
	schema   *schema.Schema
	warnings []string
}

// visit cleans a value and returns what it has become. A value whose shape is not that of its type stays: the API
// server's own message about it is the better one.
func (c *cleaner) visit(content any, ref schema.TypeRef, path fieldpath.Path) any {
	atom, ok := c.schema.Resolve(ref)
	if !ok {
		return content
	}
	switch v := content.(type) {
	case map[string]any:
		if atom.Map != nil {
			c.visitMap(v, atom.Map, path)
		}
	case []any:
		if atom.List != nil {
			return c.visitList(v, atom.List, path)
		}
	}
	return content
}

func (c *cleaner) visitMap(content map[string]any, m *schema.Map, path fieldpath.Path) {
	open := !isZero(m.ElementType)
	for _, name := range slices.Sorted(maps.Keys(content)) {
		inner := append(slices.Clone(path), fieldpath.FieldNameElement(name))
		field, declared := m.FindField(name)
		switch {
		case declared:
			content[name] = c.visit(content[name], field.Type, inner)
		case open:
			content[name] = c.visit(content[name], m.ElementType, inner)
		default:
			delete(content, name)
			c.warn(inner, undeclared)
		}
	}
}

func (c *cleaner) visitList(content []any, l *schema.List, path fieldpath.Path) []any {
	if l.ElementRelationship == schema.Associative {
		content = c.merge(content, l, path)
	}
	for i, item := range content {
		element := fieldpath.IndexElement(i)
		if key, ok := c.keyOf(item, l); ok {
			element = key
		}
		content[i] = c.visit(item, l.ElementType, append(slices.Clone(path), element))
	}
	return content
}

// merge folds items that share a key into the first of them.
func (c *cleaner) merge(content []any, l *schema.List, path fieldpath.Path) []any {
	out := make([]any, 0, len(content))
	seen := map[string]int{}
	for _, item := range content {
		key, ok := c.keyOf(item, l)
		if !ok {
			out = append(out, item)
			continue
		}
		text := key.String()
		first, again := seen[text]
		if !again {
			seen[text] = len(out)
			out = append(out, item)
			continue
		}
		into, isMap := out[first].(map[string]any)
		if isMap {
			out[first] = overlay(into, item.(map[string]any), l, path)
			c.warn(append(slices.Clone(path), key), "declared more than once, merged into one item in which the last declaration wins")
		} else {
			c.warn(append(slices.Clone(path), key), "declared more than once, kept once")
		}
	}
	return out
}

// alternatives are the keyed lists whose items hold one of several fields: an environment variable has a value or a
// source, a volume one kind of source. Merging two items field by field could leave two, which the API refuses, so that
// the last item replaces the first.
var alternatives = []string{"env", "volumes"}

// overlay merges two items with the same key.
func overlay(first, last map[string]any, l *schema.List, path fieldpath.Path) map[string]any {
	if name := path[len(path)-1].FieldName; name != nil && slices.Contains(alternatives, *name) && slices.Equal(l.Keys, []string{"name"}) {
		return last
	}
	maps.Copy(first, last)
	return first
}

// keyOf returns the element by which an item of a keyed list or a set is found, with defaults filled in as the API
// server does. It returns false for an atomic list and for an item without a key.
func (c *cleaner) keyOf(item any, l *schema.List) (fieldpath.PathElement, bool) {
	if l.ElementRelationship != schema.Associative {
		return fieldpath.PathElement{}, false
	}
	m, isMap := item.(map[string]any)
	if len(l.Keys) == 0 {
		if isMap || item == nil {
			return fieldpath.PathElement{}, false
		}
		if _, isList := item.([]any); isList {
			return fieldpath.PathElement{}, false
		}
		return fieldpath.ValueElement(value.NewValueInterface(item)), true
	}
	if !isMap {
		return fieldpath.PathElement{}, false
	}
	var fields []value.Field
	for _, name := range l.Keys {
		content, ok := m[name]
		if !ok {
			content = c.defaultOf(l, name)
		}
		if content != nil {
			fields = append(fields, value.Field{Name: name, Value: value.NewValueInterface(content)})
		}
	}
	if len(fields) == 0 {
		return fieldpath.PathElement{}, false
	}
	list := value.FieldList(fields)
	list.Sort()
	return fieldpath.PathElement{Key: &list}, true
}

// defaultOf is the default of a key field; nil where it has none.
func (c *cleaner) defaultOf(l *schema.List, name string) any {
	atom, ok := c.schema.Resolve(l.ElementType)
	if !ok || atom.Map == nil {
		return nil
	}
	field, _ := atom.FindField(name)
	return field.Default
}

func (c *cleaner) warn(path fieldpath.Path, what string) {
	c.warnings = append(c.warnings, fmt.Sprintf("%s: %s", strings.TrimPrefix(path.String(), "."), what))
}

// isZero says that a reference names no type, which closes a map to undeclared fields.
func isZero(ref schema.TypeRef) bool {
	return ref.NamedType == nil && ref.Inlined == (schema.Atom{})
}
