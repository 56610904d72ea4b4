package faults

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// deepest is how many levels of a schema are changed below the spec, and deepestAbsent how many below an object that is absent.
const deepest, deepestAbsent = 7, 3

// alien is a word that no field of any kind means.
const alien = "no-such-thing"

// changes enumerates the operations that change one field of a base each, from the schema of its spec.
type changes struct {
	base   *Base
	out    []Operation
	absent int
}

// fieldChanges are the operations of all fields of a spec.
func fieldChanges(base *Base, schema apiextensionsv1.JSONSchemaProps, spec map[string]any) []Operation {
	c := &changes{base: base}
	c.object(schema, nil, spec, func(path []string, value any) Edit { return Edit{Path: pointerOf(path), Value: value} })
	return c.out
}

// wrap makes the edit that gives a path a value; below an object that is absent it makes the whole object.
type wrap func(path []string, value any) Edit

func (c *changes) add(path []string, what string, e Edit) {
	c.out = append(c.out, Operation{Name: strings.Join(path, ".") + ": " + what, Edits: []Edit{e}})
}

// object changes every property of an object, and the object itself where it has no fixed properties.
func (c *changes) object(s apiextensionsv1.JSONSchemaProps, path []string, value any, w wrap) {
	if len(path) >= deepest || c.absent > deepestAbsent {
		return
	}
	have, _ := value.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		v, present := have[name]
		c.field(s.Properties[name], append(slices.Clone(path), name), v, present, w)
	}
}

// field changes one field in every way, and then what is below it.
func (c *changes) field(s apiextensionsv1.JSONSchemaProps, path []string, value any, present bool, w wrap) {
	if present {
		c.add(path, "absent", Edit{Path: pointerOf(path), Remove: true})
	}
	c.add(path, "null", w(path, nil))
	name := path[len(path)-1]
	for _, v := range c.values(s, name) {
		c.add(path, describe(v), w(path, v))
	}
	for i, v := range c.base.Values[named(path)] {
		c.add(path, fmt.Sprintf("known value %d", i), w(path, v))
	}
	switch {
	case s.Type == "array" && s.Items != nil && s.Items.Schema != nil:
		c.list(*s.Items.Schema, path, value, present, w)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		c.mapping(*s.AdditionalProperties.Schema, path, value, w)
	case s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields:
		c.add(path, "unknown fields", w(path, map[string]any{alien: map[string]any{alien: alien}}))
	case len(s.Properties) > 0:
		c.add(path, "minimal", w(path, example(s, name)))
		c.below(s, path, value, present, w)
	}
}

// below goes on with the properties of an object. One that is absent is made with what it requires.
func (c *changes) below(s apiextensionsv1.JSONSchemaProps, path []string, value any, present bool, w wrap) {
	if present {
		c.object(s, path, value, w)
		return
	}
	c.absent++
	defer func() { c.absent-- }()
	c.object(s, path, nil, func(at []string, v any) Edit {
		whole := example(s, path[len(path)-1])
		return w(path, put(whole, at[len(path):], false, v))
	})
}

// list changes the order, number and content of a list.
func (c *changes) list(item apiextensionsv1.JSONSchemaProps, path []string, value any, present bool, w wrap) {
	have, _ := value.([]any)
	one := example(item, path[len(path)-1])
	c.add(path, "one more", w(path, append(slices.Clone(have), one)))
	c.add(path, "one more twice", w(path, append(slices.Clone(have), one, one)))
	if len(have) > 0 {
		c.add(path, "first removed", w(path, slices.Clone(have[1:])))
		c.add(path, "first duplicated", w(path, append(slices.Clone(have), have[0])))
	}
	if len(have) > 1 {
		turned := slices.Clone(have)
		slices.Reverse(turned)
		c.add(path, "reversed", w(path, turned))
		c.add(path, "last removed", w(path, slices.Clone(have[:len(have)-1])))
	}
	if len(item.Properties) == 0 {
		for _, v := range c.values(item, path[len(path)-1]) {
			c.add(path, "item "+describe(v), w(path, []any{v}))
		}
		return
	}
	if present && len(have) > 0 {
		at := append(slices.Clone(path), strconv.Itoa(0))
		c.object(item, at, have[0], w)
		return
	}
	c.absent++
	defer func() { c.absent-- }()
	at := append(slices.Clone(path), strconv.Itoa(0))
	c.object(item, at, nil, func(to []string, v any) Edit {
		return w(path, []any{put(example(item, ""), to[len(at):], false, v)})
	})
}

// mapping adds keys to a map and takes them away.
func (c *changes) mapping(item apiextensionsv1.JSONSchemaProps, path []string, value any, w wrap) {
	have, _ := value.(map[string]any)
	with := func(key string, v any) map[string]any {
		out := maps.Clone(have)
		if out == nil {
			out = map[string]any{}
		}
		out[key] = v
		return out
	}
	one := example(item, "")
	c.add(path, "a key more", w(path, with("misoperation.example.com/key", one)))
	c.add(path, "a malformed key", w(path, with("not a key!", one)))
	c.add(path, "another key", w(path, map[string]any{"other": one}))
	c.add(path, "a key of cpu", w(path, with("cpu", one)))
	for _, v := range c.values(item, "") {
		c.add(path, "a value "+describe(v), w(path, with("key", v)))
	}
	for _, key := range slices.Sorted(maps.Keys(have)) {
		c.add(path, "without "+key, Edit{Path: pointerOf(append(slices.Clone(path), key)), Remove: true})
	}
}

// named is the path of a field without the indexes of lists.
func named(path []string) string {
	var out []string
	for _, p := range path {
		if _, err := strconv.Atoi(p); err != nil && p != "-" {
			out = append(out, p)
		}
	}
	return strings.Join(out, ".")
}

// describe prints a value for the name of an operation.
func describe(v any) string {
	s := fmt.Sprintf("%q", fmt.Sprint(v))
	if _, text := v.(string); !text {
		s = fmt.Sprint(v)
	}
	if len(s) > 40 {
		return fmt.Sprintf("%s… of %d", strings.ToValidUTF8(s[:20], ""), len(s))
	}
	return s
}

// example is a value that a schema accepts: enough of it that what is required is there.
func example(s apiextensionsv1.JSONSchemaProps, name string) any {
	switch {
	case s.Default != nil && len(s.Properties) == 0:
		return literal(*s.Default)
	case len(s.Enum) > 0:
		return literal(s.Enum[0])
	case s.XIntOrString:
		return int64(1)
	case s.Type == "object" || len(s.Properties) > 0:
		out := map[string]any{}
		for _, p := range s.Required {
			out[p] = example(s.Properties[p], p)
		}
		return out
	case s.Type == "array":
		return []any{}
	case s.Type == "integer" || s.Type == "number":
		if s.Minimum != nil {
			return int64(*s.Minimum)
		}
		return int64(1)
	case s.Type == "boolean":
		return true
	}
	return sensible(name)[0]
}
