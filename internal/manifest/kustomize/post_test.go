package kustomize

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func configMap(name string, data map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": data,
	}}
}

// TestAdjustLeavesWhatNoPatchNames puts values into a file for kustomize that YAML reads otherwise where they are not quoted. A patch whose
// target matches nothing changes nothing, as with kustomize build.
func TestAdjustLeavesWhatNoPatchNames(t *testing.T) {
	odd := map[string]any{
		"yes": "no", "on": "0x1f", "date": "2026-01-02", "number": int64(9007199254740993), "share": 1.5, "large": 1e21, "octal": "0777", "float": "1e3",
		"null": "null", "tilde": "~", "empty": "", "lines": "a\n b\n\n", "tab": "\ta ", "control": "\x7f\u0085\u2028", "flag": true,
		"list": []any{"- x", "# y", "a: b", []any{}, map[string]any{}}, "variable": "$(NAME) ${NAME}", "separator": "---\na: b\n",
	}
	want := []*unstructured.Unstructured{configMap("z", odd), configMap("a", map[string]any{"a": "b"})}
	a := Adjustments{Patches: []Patch{{Patch: "- {op: remove, path: /data}", Target: &Selector{Kind: "Secret"}}}}
	got, err := a.Adjust(want)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-rendered +adjusted):\n%s", err, diff)
	}
}

// TestAdjustKeepsNames holds that a strategic merge patch renames nothing, as with kustomize without the option allowNameChange, and that
// the metadata is set after the patches.
func TestAdjustKeepsNames(t *testing.T) {
	a := Adjustments{
		Patches: []Patch{
			{Patch: "{apiVersion: v1, kind: Any, metadata: {name: any, namespace: other, labels: {team: p, of: patch}}, data: {c: d}}", Target: &Selector{Name: "a"}},
			{Patch: "{apiVersion: v1, kind: ConfigMap, metadata: {name: gone}, $patch: delete}"},
		},
		Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"by": "me"},
	}
	got, err := a.Adjust([]*unstructured.Unstructured{configMap("a", map[string]any{"a": "b"}), configMap("gone", nil), configMap("z", nil)})
	if err != nil || len(got) != 2 {
		t.Fatalf("%v, %v", got, err)
	}
	want := configMap("a", map[string]any{"a": "b", "c": "d"})
	want.SetLabels(map[string]string{"team": "a", "of": "patch"})
	want.SetAnnotations(map[string]string{"by": "me"})
	if diff := cmp.Diff(want, got[0]); diff != "" || got[1].GetName() != "z" || got[1].GetLabels()["team"] != "a" {
		t.Errorf("%v (-want +got):\n%s", got[1], diff)
	}
}

// TestAdjustNamesTheFieldThatIsWrong: of several patches the one that cannot be applied.
func TestAdjustNamesTheFieldThatIsWrong(t *testing.T) {
	good, of := Patch{Patch: "- {op: add, path: /data/x, value: y}", Target: &Selector{Kind: "ConfigMap"}}, &Selector{Kind: "ConfigMap"}
	for why, wrong := range map[string]Patch{
		"no matches for Id Service":           {Patch: "{apiVersion: v1, kind: Service, metadata: {name: none}}"},
		"unable to parse SM or JSON patch":    {Patch: "text", Target: of},
		`doc is missing path: "/spec/none"`:   {Patch: "- {op: remove, path: /spec/none}", Target: of},
		"error parsing regexp":                {Patch: "- {op: remove, path: /data}", Target: &Selector{Name: "("}},
		"must specify a target":               {Patch: "- {op: remove, path: /data}"},
		"metadata.labels.a is a number":       {Patch: "- {op: add, path: /metadata/labels, value: {a: 1}}", Target: of},
		"missing metadata.name":               {Patch: "- {op: replace, path: /metadata/name, value: ''}", Target: of},
		"found '==', expected: !, identifier": {Patch: "- {op: remove, path: /data}", Target: &Selector{LabelSelector: "=="}},
	} {
		a := Adjustments{Patches: []Patch{good, good, wrong, good}}
		_, err := a.Adjust([]*unstructured.Unstructured{configMap("a", map[string]any{"a": "b"})})
		var field *FieldError
		if !errors.As(err, &field) || field.Field != "patches[2]" || field.Value != truncate(wrong.Patch) || !strings.Contains(field.Why, why) {
			t.Errorf("%s: %v", why, err)
		}
	}
	for name, c := range map[string]struct {
		objects []*unstructured.Unstructured
		change  Adjustments
	}{
		"patches":        {[]*unstructured.Unstructured{configMap("a", nil), configMap("a", nil)}, Adjustments{Patches: []Patch{good}}},
		"commonMetadata": {nil, Adjustments{Labels: map[string]string{"a b": "c"}}},
	} {
		var field *FieldError
		if _, err := c.change.Adjust(c.objects); !errors.As(err, &field) || field.Field != name || field.Why == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
