package sanitize

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/yaml"
)

// small is a schema with every case: declared and free maps, keyed lists with and without defaults, sets, atomic lists
// and a part that takes anything.
const small = `types:
- name: root
  map:
    fields:
    - {name: kind, type: {scalar: string}}
    - {name: labels, type: {map: {elementType: {scalar: string}}}}
    - {name: free, type: {namedType: __untyped_deduced_}}
    - {name: set, type: {list: {elementType: {scalar: string}, elementRelationship: associative}}}
    - {name: atoms, type: {list: {elementType: {namedType: item}, elementRelationship: atomic}}}
    - {name: ports, type: {list: {elementType: {namedType: port}, elementRelationship: associative, keys: [number, protocol]}}}
    - {name: env, type: {list: {elementType: {namedType: item}, elementRelationship: associative, keys: [name]}}}
    - {name: items, type: {list: {elementType: {namedType: item}, elementRelationship: associative, keys: [name]}}}
- name: port
  map:
    fields:
    - {name: number, type: {scalar: numeric}}
    - {name: protocol, type: {scalar: string}, default: TCP}
    - {name: name, type: {scalar: string}}
- name: item
  map:
    fields:
    - {name: name, type: {scalar: string}}
    - {name: value, type: {scalar: string}}
    - {name: valueFrom, type: {scalar: string}}
    - {name: env, type: {list: {elementType: {namedType: item}, elementRelationship: associative, keys: [name]}}}
- name: __untyped_atomic_
  scalar: untyped
  list: {elementType: {namedType: __untyped_atomic_}, elementRelationship: atomic}
  map: {elementType: {namedType: __untyped_atomic_}, elementRelationship: atomic}
- name: __untyped_deduced_
  scalar: untyped
  list: {elementType: {namedType: __untyped_atomic_}, elementRelationship: atomic}
  map: {elementType: {namedType: __untyped_deduced_}, elementRelationship: separable}
`

func smallType(t testing.TB) (Type, typed.ParseableType) {
	t.Helper()
	parser, err := typed.NewParser(small)
	if err != nil {
		t.Fatal(err)
	}
	name := "root"
	return Type{Schema: &parser.Schema, Ref: schema.TypeRef{NamedType: &name}}, parser.Type(name)
}

func object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

const (
	dropped = ": dropped, since the API does not declare this field"
	merged  = ": declared more than once, merged into one item in which the last declaration wins"
	once    = ": declared more than once, kept once"
)

func TestInvariant11CleanDropsAndMerges(t *testing.T) {
	small, parseable := smallType(t)
	for name, c := range map[string]struct {
		in, want string
		warnings []string
	}{
		"nothing to do": {
			in:   `{kind: K, labels: {any: thing}, set: [a, b], ports: [{number: 1}, {number: 1, protocol: UDP}], env: [{name: a}, {name: b}]}`,
			want: `{kind: K, labels: {any: thing}, set: [a, b], ports: [{number: 1}, {number: 1, protocol: UDP}], env: [{name: a}, {name: b}]}`,
		},
		"undeclared fields": {
			in:   `{kind: K, zeta: 1, alpha: {a: b}, ports: [{number: 1, nope: x}], atoms: [{name: a}, {nope: 1}]}`,
			want: `{kind: K, ports: [{number: 1}], atoms: [{name: a}, {}]}`,
			warnings: []string{
				"alpha" + dropped, "atoms[1].nope" + dropped, `ports[number=1,protocol="TCP"].nope` + dropped,
				"zeta" + dropped,
			},
		},
		"unknown fields that are preserved": {
			in:   `{kind: K, free: {any: [{name: a}, {name: a}], deep: {er: 1}}}`,
			want: `{kind: K, free: {any: [{name: a}, {name: a}], deep: {er: 1}}}`,
		},
		"duplicate keys, a default among them": {
			in:       `{kind: K, ports: [{number: 1, name: one}, {number: 2}, {number: 1, protocol: TCP}, {number: 1, name: three}]}`,
			want:     `{kind: K, ports: [{number: 1, protocol: TCP, name: three}, {number: 2}]}`,
			warnings: []string{`ports[number=1,protocol="TCP"]` + merged, `ports[number=1,protocol="TCP"]` + merged},
		},
		"alternatives are replaced": {
			in:       `{kind: K, env: [{name: a, value: x}, {name: b}, {name: a, valueFrom: z}]}`,
			want:     `{kind: K, env: [{name: a, valueFrom: z}, {name: b}]}`,
			warnings: []string{`env[name="a"]` + merged},
		},
		"other items are merged, and cleaned inside": {
			in:       `{kind: K, items: [{name: a, value: x, env: [{name: e}, {name: e}]}, {name: a, valueFrom: z, nope: 1}]}`,
			want:     `{kind: K, items: [{name: a, value: x, valueFrom: z, env: [{name: e}]}]}`,
			warnings: []string{`items[name="a"]` + merged, `items[name="a"].env[name="e"]` + merged, `items[name="a"].nope` + dropped},
		},
		"sets": {
			in:       `{kind: K, set: [a, b, a]}`,
			want:     `{kind: K, set: [a, b]}`,
			warnings: []string{`set[="a"]` + once},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := object(t, c.in)
			got, warnings := Clean(in, small)
			if diff := cmp.Diff(object(t, c.want).Object, got.Object); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.warnings, warnings); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(object(t, c.in).Object, in.Object); diff != "" {
				t.Errorf("the input changed: %s", diff)
			}
			_, refused := parseable.FromUnstructured(in.Object)
			if Refused(refused) != (len(c.warnings) > 0) {
				t.Errorf("server-side apply's own check says %v to the input", refused)
			}
			if _, err := parseable.FromUnstructured(got.Object); err != nil {
				t.Errorf("server-side apply would still refuse: %v", err)
			}
			if _, again := Clean(got, small); len(again) != 0 {
				t.Errorf("not idempotent: %q", again)
			}
		})
	}
}

func TestCleanLeavesWrongShapes(t *testing.T) {
	small, _ := smallType(t)
	const in = `{kind: K, labels: text, ports: {a: b}, env: [text, {}, null], set: [{a: b}, [x], null, 1, 1]}`
	got, warnings := Clean(object(t, in), small)
	want := object(t, in).Object
	want["set"] = want["set"].([]any)[:4]
	if diff := cmp.Diff(want, got.Object); diff != "" {
		t.Error(diff)
	}
	if len(warnings) != 1 {
		t.Errorf("warnings: %q", warnings)
	}
	name := "none"
	if _, warnings := Clean(object(t, `{kind: K, a: b}`), Type{Schema: small.Schema, Ref: schema.TypeRef{NamedType: &name}}); warnings != nil {
		t.Errorf("warnings without a type: %q", warnings)
	}
}

func FuzzClean(f *testing.F) {
	f.Add([]byte(`{"kind":"K","ports":[{"number":1},{"number":1}],"nope":{"a":[1]}}`))
	f.Add([]byte(`{"kind":"K","set":["a","a"],"env":[{"name":"a"},{"name":"a","nope":1}],"free":{"x":null}}`))
	small, parseable := smallType(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		u := &unstructured.Unstructured{}
		if u.UnmarshalJSON(raw) != nil {
			return
		}
		got, _ := Clean(u, small)
		if _, err := parseable.FromUnstructured(got.Object); Refused(err) {
			t.Errorf("still refused: %v in %v", err, got.Object)
		}
	})
}

// TestDuplicatesAreSuspected: a create takes what a later apply refuses, so it has to be told before.
func TestDuplicatesAreSuspected(t *testing.T) {
	for list, want := range map[string]bool{
		`[{name: a}, {name: b}]`: false, `[{name: a}, {name: a}]`: true,
		`[{}, {}]`: true, `[{}, {name: ""}]`: true, `[{}]`: false,
		`[{port: 80, protocol: TCP}, {port: 80, protocol: UDP}]`: false, `[{containerPort: 80}, {containerPort: 80}]`: true,
		`[{ip: 10.0.0.1, hostnames: [a]}, {ip: 10.0.0.1, hostnames: [b]}]`:   true,
		`[{apiGroups: [""], verbs: [get]}, {apiGroups: [""], verbs: [get]}]`: false,
	} {
		var content any
		if err := yaml.Unmarshal([]byte(list), &content); err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"list": content}}}
		if got := Suspicious(u); got != want {
			t.Errorf("%s: %v", list, got)
		}
	}
}
