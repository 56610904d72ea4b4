package faults

import (
	"reflect"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestEditsReachWhatIsAbsent(t *testing.T) {
	spec := map[string]any{"a": map[string]any{"b": int64(1)}, "l": []any{"x", "y"}}
	for _, c := range []struct {
		name string
		edit Edit
		want map[string]any
	}{
		{"a field", Edit{Path: "/a/b", Value: 2}, map[string]any{"a": map[string]any{"b": int64(2)}, "l": []any{"x", "y"}}},
		{"an absent object", Edit{Path: "/n/m", Value: "v"}, map[string]any{
			"a": map[string]any{"b": int64(1)}, "l": []any{"x", "y"}, "n": map[string]any{"m": "v"},
		}},
		{"an item", Edit{Path: "/l/1", Value: "z"}, map[string]any{"a": map[string]any{"b": int64(1)}, "l": []any{"x", "z"}}},
		{"one more", Edit{Path: "/l/-", Value: "z"}, map[string]any{"a": map[string]any{"b": int64(1)}, "l": []any{"x", "y", "z"}}},
		{"an item away", Edit{Path: "/l/0", Remove: true}, map[string]any{"a": map[string]any{"b": int64(1)}, "l": []any{"y"}}},
		{"a field away", Edit{Path: "/a/b", Remove: true}, map[string]any{"a": map[string]any{}, "l": []any{"x", "y"}}},
		{"nothing away", Edit{Path: "/n/m", Remove: true}, spec},
		{"beyond a list", Edit{Path: "/l/7", Value: "z"}, spec},
		{"below a text", Edit{Path: "/l/0/x", Value: "z"}, spec},
	} {
		got, err := edited(spec, []Edit{c.edit})
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v (%v), want %v", c.name, got, err, c.want)
		}
	}
	if _, err := edited(spec, []Edit{{Value: "text"}}); err == nil {
		t.Error("a spec that is no object was accepted")
	}
}

// TestEveryFieldIsChanged: each field of a schema is changed, also below objects that the base does not have, and with what these
// require.
func TestEveryFieldIsChanged(t *testing.T) {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	schema := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"replicas": {Type: "integer"},
		"list":     {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &text}},
		"absent": {Type: "object", Required: []string{"needed"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"needed": text, "image": text,
		}},
	}}
	spec := map[string]any{"replicas": int64(3), "list": []any{"x", "y"}}
	got := map[string]Edit{}
	for _, op := range fieldChanges(&Base{Values: map[string][]any{"absent.image": {"known"}}}, schema, spec) {
		got[op.Name] = op.Edits[0]
	}
	for name, want := range map[string]Edit{
		"replicas: absent":            {Path: "/replicas", Remove: true},
		"replicas: -1":                {Path: "/replicas", Value: int64(-1)},
		"list: reversed":              {Path: "/list", Value: []any{"y", "x"}},
		"list: first duplicated":      {Path: "/list", Value: []any{"x", "y", "x"}},
		"absent: minimal":             {Path: "/absent", Value: map[string]any{"needed": alien}},
		"absent.image: known value 0": {Path: "/absent", Value: map[string]any{"needed": alien, "image": "known"}},
	} {
		if !reflect.DeepEqual(got[name], want) {
			t.Errorf("%s is %+v, want %+v", name, got[name], want)
		}
	}
}
