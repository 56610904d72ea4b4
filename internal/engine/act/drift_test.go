package act

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
)

// TestDriftIsLeft has another manager set a value that is declared: what becomes of it, and what is told of it, is as the object says, when
// the change is found, and when the object is declared anew afterwards.
func TestDriftIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		drift       plan.Drift
		found, anew string
		warned      bool
	}{
		"taken back":                 {drift: plan.Drift{}, found: "declared", anew: "declared"},
		"left with a warning":        {drift: plan.Drift{Leave: true}, found: "theirs", anew: "declared", warned: true},
		"ignored":                    {drift: plan.Drift{Ignore: []string{"/data/a"}}, found: "theirs", anew: "theirs"},
		"ignored with what holds it": {drift: plan.Drift{Ignore: []string{"/data"}}, found: "theirs", anew: "theirs"},
		"ignored beside a warning":   {drift: plan.Drift{Leave: true, Ignore: []string{"/data/a"}}, found: "theirs", anew: "theirs"},
		"another field is ignored":   {drift: plan.Drift{Ignore: []string{"/data/b", "/dat", "/data/a/b"}}, found: "declared", anew: "declared"},
		"marks are never left":       {drift: plan.Drift{Leave: true, Ignore: []string{"/metadata"}}, found: "theirs", anew: "declared", warned: true},
	} {
		t.Run(name, func(t *testing.T) {
			cast := newCast(t)
			st := declared(t, func(o *plan.Object) {
				o.Drift = c.drift
				// Of the types of this server it knows no fields, so that a map goes with its last one.
				_ = unstructured.SetNestedStringMap(o.Desired.Object, map[string]string{"a": "declared", "b": "declared"}, "data")
			})
			made := cast.do(t, creates(st)).Observed
			action := applies(st, made.UID, decide.ReasonChanged)
			action.Migrate = true
			cast.do(t, action)
			u := cast.server.get(path)
			_ = unstructured.SetNestedField(u.Object, "theirs", "data", "a")
			labels := u.GetLabels()
			for mark := range labels {
				labels[mark] = "theirs"
			}
			u.SetLabels(labels)
			cast.server.put(path, "meddler", u)

			res := cast.do(t, applies(st, made.UID, decide.ReasonDrift))
			got, _, _ := unstructured.NestedString(cast.server.get(path).Object, "data", "a")
			if res.Err != nil || got != c.found {
				t.Errorf("%v: it is %s, want %s", res.Err, got, c.found)
			}
			if slices.Contains(mapValues(cast.server.get(path).GetLabels()), "theirs") {
				t.Error("the marks are left to another manager")
			}
			ignored := func(text string) bool { return strings.HasPrefix(text, IgnoredField) }
			if got := slices.ContainsFunc(res.Warnings, ignored); got != (c.anew == "theirs") {
				t.Errorf("what is ignored is recorded in %q", res.Warnings)
			}
			warned := strings.Join(slices.DeleteFunc(slices.Clone(res.Warnings), ignored), "")
			if (warned != "") != c.warned || c.warned && !strings.Contains(warned, "data.a is left as meddler has set it") {
				t.Errorf("warnings %q", res.Warnings)
			}
			if res := cast.do(t, applies(st, made.UID, decide.ReasonChanged)); res.Err != nil {
				t.Fatal(res.Err)
			}
			if got, _, _ := unstructured.NestedString(cast.server.get(path).Object, "data", "a"); got != c.anew {
				t.Errorf("declared anew it is %s, want %s", got, c.anew)
			}
		})
	}
}

func mapValues(m map[string]string) (out []string) {
	for _, v := range m {
		out = append(out, v)
	}
	return out
}
