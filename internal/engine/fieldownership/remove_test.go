package fieldownership

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

func path(parts ...any) Field {
	p := fieldpath.MakePathOrDie(parts...)
	return Field{Path: p, Text: textOf(p), Manager: "other"}
}

func key(nameValues ...any) *value.FieldList { return fieldpath.KeyByFields(nameValues...) }

func TestInvariant11RemoveCedesFields(t *testing.T) {
	const in = `
kind: K
spec:
  replicas: 2
  empty: {}
  only: {inner: {a: 1}}
  set: [a, b]
  items:
  - {name: x, image: one, port: 1}
  - {name: z}
  ports:
  - {containerPort: 80, protocol: UDP, name: udp}
  - {containerPort: 80, name: tcp}
`
	for name, c := range map[string]struct {
		fields []Field
		want   func(spec map[string]any)
	}{
		"nothing":      {nil, func(map[string]any) {}},
		"not there":    {[]Field{path("spec", "none", "at all"), path("spec", "replicas", "deeper"), path("spec", "empty", "x")}, func(map[string]any) {}},
		"a scalar":     {[]Field{path("spec", "replicas")}, func(s map[string]any) { delete(s, "replicas") }},
		"no shell":     {[]Field{path("spec", "only", "inner", "a")}, func(s map[string]any) { delete(s, "only") }},
		"a set's item": {[]Field{path("spec", "set", value.NewValueInterface("a"))}, func(s map[string]any) { s["set"] = []any{"b"} }},
		"a whole set": {
			[]Field{path("spec", "set", value.NewValueInterface("a")), path("spec", "set", value.NewValueInterface("b"))},
			func(s map[string]any) { delete(s, "set") },
		},
		"inside an item": {
			[]Field{path("spec", "items", key("name", "x"), "image")},
			func(s map[string]any) { delete(s["items"].([]any)[0].(map[string]any), "image") },
		},
		"not the key alone": {
			[]Field{path("spec", "items", key("name", "x"), "name"), path("spec", "items", key("name", "x"), "image")},
			func(s map[string]any) { delete(s["items"].([]any)[0].(map[string]any), "image") },
		},
		"the key with all else": {
			[]Field{
				path("spec", "items", key("name", "z"), "name"), path("spec", "items", key("name", "x"), "name"),
				path("spec", "items", key("name", "x"), "image"), path("spec", "items", key("name", "x"), "port"),
			},
			func(s map[string]any) { delete(s, "items") },
		},
		"a whole item": {
			[]Field{path("spec", "items", key("name", "x"))},
			func(s map[string]any) { s["items"] = s["items"].([]any)[1:] },
		},
		"a default in the key": {
			[]Field{path("spec", "ports", key("containerPort", int64(80), "protocol", "TCP"), "name")},
			func(s map[string]any) { delete(s["ports"].([]any)[1].(map[string]any), "name") },
		},
		"an exact key": {
			[]Field{path("spec", "ports", key("containerPort", int64(80), "protocol", "UDP"), "name")},
			func(s map[string]any) { delete(s["ports"].([]any)[0].(map[string]any), "name") },
		},
		"an index": {[]Field{path("spec", "set", 1), path("spec", "set", 7)}, func(s map[string]any) { s["set"] = []any{"a"} }},
	} {
		t.Run(name, func(t *testing.T) {
			desired, want := object(t, in), object(t, in)
			c.want(want.Object["spec"].(map[string]any))
			got := Remove(desired, c.fields)
			if diff := cmp.Diff(want.Object, got.Object); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(object(t, in).Object, desired.Object); diff != "" {
				t.Errorf("the input changed: %s", diff)
			}
		})
	}
}

// TestInvariant11CededFieldsAreNotLostAgain ties Lost and Remove together: ceding everything that is lost ends the drift.
func TestInvariant11CededFieldsAreNotLostAgain(t *testing.T) {
	observed := object(t, live+entry("other", "Update", late, `{`+container+`"f:image":{},"f:args":{},"f:resources":{"f:limits":{"f:cpu":{}}},`+
		`"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:name":{}}}}}}},"f:replicas":{}}}`))
	desired := object(t, deployment)
	lost := Lost(desired, observed, me)
	if len(lost) != 7 {
		t.Fatalf("lost %v", lost)
	}
	rest := Remove(desired, lost)
	if again := Lost(rest, observed, me); len(again) != 0 {
		t.Fatalf("still lost: %v in %v", again, rest.Object)
	}
}
