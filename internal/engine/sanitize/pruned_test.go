package sanitize

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestPruned(t *testing.T) {
	parsed := func(text string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		return u
	}
	const sent = `{apiVersion: g.io/v1, kind: Thing, metadata: {annotations: {a: b}}, status: {s: 1},
spec: {port: {target: http}, none: null, text: "", list: [{a: 1, b: {c: 1}}, {a: 2}], theirs: [{a: 1}], gone: {}, away: [1]}}`
	for name, c := range map[string]struct {
		answer string
		want   []string
	}{
		"all is there":             {`{spec: {port: {target: web, more: 1}, text: "", list: [{a: 1, b: {c: 2}}, {a: 2}], theirs: [{}, {}], gone: {}, away: []}}`, nil},
		"a field of an empty type": {`{spec: {port: {}, text: "", list: [{a: 1, b: {c: 1}}, {a: 2}], theirs: [{a: 1}], gone: {}, away: [1]}}`, []string{"spec.port.target: " + undeclared}},
		"one of an item, and whole ones": {
			`{spec: {port: {target: http}, text: "", list: [{a: 1, b: {}}, {a: 2}], theirs: [{a: 1}]}}`,
			[]string{"spec.away: " + undeclared, "spec.gone: " + undeclared, "spec.list[0].b.c: " + undeclared},
		},
	} {
		if got := Pruned(parsed(sent), parsed(c.answer)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
