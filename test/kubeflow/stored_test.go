package kubeflow

import (
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"mlkeeper.dev/internal/manifest/convert"
	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/test/cluster"
)

// kustomized renders Kubeflow 1.2 with plain kustomize, application by application: in this mode kfctl took every path as it is.
func kustomized(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	k, repo := manifesttest.Kubeflow(t)
	disk := filesys.MakeFsInMemory()
	for name, file := range repo {
		if err := disk.WriteFile(path.Join("/repo", name), file.Data); err != nil {
			t.Fatal(err)
		}
	}
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsNone
	var out []*unstructured.Unstructured
	for _, a := range k.Spec.Applications {
		result, err := krusty.MakeKustomizer(options).Run(disk, path.Join("/repo", a.KustomizeConfig.RepoRef.Path))
		if err != nil {
			t.Fatalf("%s: %v", a.Name, err)
		}
		out = append(out, manifesttest.Objects(t, result)...)
	}
	return out
}

// stored compares every field of objects that were rendered with what the API server has stored, and returns how many objects it
// has compared. An API that the cluster does not serve is converted first, as docs/kfdef.md says; objects without a namespace are in
// that of the KfDef. warnings are those of its status: a field that no schema has is dropped, and told there.
func stored(t *testing.T, c *cluster.Cluster, objects []*unstructured.Unstructured, namespace string, warnings []string) int {
	t.Helper()
	mapping := func(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
		return c.Client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	served := func(gvk schema.GroupVersionKind) bool {
		_, err := mapping(gvk)
		return err == nil
	}
	var wrong []string
	compared, seen := 0, map[string]bool{}
	for _, u := range objects {
		if !served(u.GroupVersionKind()) {
			converted, _, err := convert.Converter{Served: served}.Convert(u)
			if err != nil || converted == nil {
				t.Fatalf("%s %s: %v", u.GetKind(), u.GetName(), err)
			}
			u = converted
		}
		gvk := u.GroupVersionKind()
		m, err := mapping(gvk)
		if meta.IsNoMatchError(err) || u.GetName() == orphan {
			continue // The caller asserts which these are.
		}
		if err != nil {
			t.Fatal(err)
		}
		in := u.GetNamespace()
		switch {
		case m.Scope.Name() == meta.RESTScopeNameRoot:
			in = ""
		case in == "":
			in = namespace
		}
		live := c.Get(t, gvk, in, u.GetName())
		at := strings.TrimSuffix(gvk.Kind+" "+in+"/"+u.GetName(), "/")
		if live == nil {
			wrong = append(wrong, at+" is missing")
			continue
		}
		compared++
		again := seen[at]
		seen[at] = true
		for _, d := range differences(declared(u), live.Object) {
			if told(warnings, d.path) || again && strings.HasPrefix(d.path, "metadata.labels.") {
				continue
			}
			wrong = append(wrong, at+": "+d.String())
		}
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		t.Errorf("%d values are not stored as they were rendered, the first of them:\n%s", len(wrong), strings.Join(wrong[:min(len(wrong), 10)], "\n"))
	}
	return compared
}

// told says that a warning tells of a field that was dropped.
func told(warnings []string, field string) bool {
	return slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, field+": dropped") })
}

// declared is what of an object is to be stored.
func declared(u *unstructured.Unstructured) map[string]any {
	out := u.DeepCopy().Object
	delete(out, "status") // It is what a controller says, and applied by none.
	metadata, _ := out["metadata"].(map[string]any)
	delete(metadata, "namespace")
	switch u.GetKind() {
	case "Secret":
		texts, _ := out["stringData"].(map[string]any)
		data, _ := out["data"].(map[string]any)
		if data == nil {
			data = map[string]any{}
		}
		for key, value := range texts {
			data[key] = base64.StdEncoding.EncodeToString([]byte(fmt.Sprint(value)))
		}
		out["data"] = data
		delete(out, "stringData")
	case "ClusterRole":
		if out["aggregationRule"] != nil {
			delete(out, "rules") // The control plane fills them in.
		}
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		hooks, _ := out["webhooks"].([]any)
		for _, hook := range hooks {
			config, _ := hook.(map[string]any)["clientConfig"].(map[string]any)
			delete(config, "caBundle") // Whoever has the certificates of the server fills it in.
		}
	}
	return out
}

// difference is a declared value that is not stored.
type difference struct {
	path       string
	want, have any
}

func (d difference) String() string {
	text := fmt.Sprintf("%s is %v, not %v", d.path, d.have, d.want)
	if len(text) > 300 {
		text = text[:300] + "…"
	}
	return text
}

// differences are the declared values that an object does not hold. Quantities are compared by what they mean, a null declares
// nothing, and a declared zero value may be left out.
func differences(want, have any) []difference { return below("", want, have) }

func below(at string, want, have any) []difference {
	if want == nil || have == nil && zero(want) {
		return nil
	}
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			return []difference{{at, want, have}}
		}
		var out []difference
		for key, value := range w {
			out = append(out, below(strings.TrimPrefix(at+"."+key, "."), value, h[key])...)
		}
		return out
	case []any:
		h, ok := have.([]any)
		if !ok {
			return []difference{{at, want, have}}
		}
		return list(at, w, h)
	}
	if same(want, have) {
		return nil
	}
	return []difference{{at, want, have}}
}

// list compares lists in their order. Where the API server or somebody else has added an item, each declared one has a stored one.
func list(at string, want, have []any) []difference {
	var out []difference
	if len(want) == len(have) {
		for i := range want {
			out = append(out, below(at, want[i], have[i])...)
		}
		return out
	}
	rest := slices.Clone(have)
	for _, w := range want {
		i := slices.IndexFunc(rest, func(h any) bool { return len(below(at, w, h)) == 0 })
		if i < 0 {
			out = append(out, difference{at, w, have})
			continue
		}
		rest = slices.Delete(rest, i, i+1)
	}
	return out
}

func zero(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case map[string]any:
		for _, inner := range v {
			if !zero(inner) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	}
	return reflect.ValueOf(value).IsZero()
}

func same(want, have any) bool {
	if want == have {
		return true
	}
	a, wrong := resource.ParseQuantity(fmt.Sprint(want))
	b, alsoWrong := resource.ParseQuantity(fmt.Sprint(have))
	return wrong == nil && alsoWrong == nil && a.Cmp(b) == 0
}

// TestDifferences: what is compared, and what is excepted by rule.
func TestDifferences(t *testing.T) {
	for name, c := range map[string]struct{ want, have, differ string }{
		"another value":       {"a: b", "a: c", "a is c, not b"},
		"a missing value":     {"a: {b: c}", "a: {}", "a.b is <nil>, not c"},
		"another type":        {"a: {b: c}", "a: [b]", "a is [b], not map[b:c]"},
		"a default":           {"a: b", "{a: b, c: d}", ""},
		"a zero that is gone": {`{a: {b: null, c: {}}, d: [], e: "", f: 0, g: false}`, "{}", ""},
		"a null":              {"a: null", "a: b", ""},
		"a zero that differs": {"a: 0", "a: 1", "a is 1, not 0"},
		"a quantity":          {"a: 1000m", `a: "1"`, ""},
		"another quantity":    {"a: 1000m", `a: "2"`, "a is 2, not 1000m"},
		"an order":            {"a: [b, c]", "a: [c, c]", "a is c, not b"},
		"an item of others":   {"a: [{b: c}]", "a: [{d: e}, {b: c, f: g}]", ""},
		"an item that lacks":  {"a: [{b: c}]", "a: [{d: e}, {b: d}]", "a is [map[d:e] map[b:d]], not map[b:c]"},
	} {
		var want, have map[string]any
		if err := errors.Join(yaml.Unmarshal([]byte(c.want), &want), yaml.Unmarshal([]byte(c.have), &have)); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, d := range differences(want, have) {
			got += d.String()
		}
		if got != c.differ {
			t.Errorf("%s: %q, not %q", name, got, c.differ)
		}
	}
}
