package convert

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files")

// objects reads the documents of a text.
func objects(t interface{ Fatal(args ...any) }, text string) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, document := range strings.Split(text, "\n---\n") {
		raw, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := utiljson.Unmarshal(raw, &u.Object); err != nil {
			t.Fatal(err)
		}
		out = append(out, u)
	}
	return out
}

func printed(t *testing.T, r *Result) string {
	t.Helper()
	var out strings.Builder
	for _, part := range []struct {
		kind string
		list []Message
	}{{"note", r.Notes}, {"warning", r.Warnings}, {"error", r.Errors}} {
		for _, m := range part.list {
			fmt.Fprintf(&out, "# %s: %s\n", part.kind, m)
		}
	}
	for _, tfserv := range r.Tfservs {
		raw, err := yaml.Marshal(map[string]any{"metadata": map[string]any{
			"name": tfserv.Name, "namespace": tfserv.Namespace, "labels": tfserv.Labels,
		}, "spec": tfserv.Spec})
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n" + string(raw))
	}
	return out.String()
}

// TestPublicManifests converts manifests as the documentation of their projects has them.
func TestPublicManifests(t *testing.T) {
	for _, name := range []string{"kserve", "deployment"} {
		raw, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		options := Options{Downloader: "downloader:1"}
		if name == "deployment" {
			options.Suffix = "-tfs"
		}
		got := printed(t, Convert(objects(t, string(raw)), options))
		path := filepath.Join("testdata", name+".golden.yaml")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil { //nolint:gosec // A golden file.
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s differs, run go test ./internal/tfserving/convert -update (-want +got):\n%s", path, diff)
		}
	}
}

const service = `
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: m, namespace: ns}
spec:
  predictor:
    tensorflow: {storageUri: "gs://b/m"}
`

// TestNothingIsDroppedSilently puts a field that nobody knows at every place of the manifests: each is reported by its path.
func TestNothingIsDroppedSilently(t *testing.T) {
	for _, name := range []string{"kserve", "deployment"} {
		raw, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		documents := objects(t, string(raw))
		for i, u := range documents {
			if !slices.Contains([]string{"InferenceService", "Deployment", "Service"}, u.GetKind()) {
				continue
			}
			places := 0
			visit(u.Object, nil, func(path []string) {
				places++
				changed := slices.Clone(documents)
				changed[i] = u.DeepCopy()
				in, _ := rest{changed[i].Object}.peek(path...)
				in.(map[string]any)["surprise"] = "mlkeeper"
				for _, m := range slices.Concat(Convert(changed, Options{}).Warnings, Convert(changed, Options{}).Errors, Convert(changed, Options{}).Notes) {
					if strings.Contains(m.Field+m.Text, "surprise") || strings.HasPrefix(join(append(path, "surprise")), m.Field) && m.Field != "" {
						return
					}
				}
				if !failing(changed, u) {
					t.Errorf("%s: a field in %s is dropped silently", nameOf(u), join(path))
				}
			})
			if places == 0 {
				t.Errorf("%s has no place", nameOf(u))
			}
		}
	}
}

// failing says that an object is not converted at all.
func failing(all []*unstructured.Unstructured, u *unstructured.Unstructured) bool {
	return slices.ContainsFunc(Convert(all, Options{}).Errors, func(m Message) bool { return m.Object == nameOf(u) })
}

// visit calls a function for the path of every map below the spec of an object.
func visit(value any, path []string, do func([]string)) {
	switch v := value.(type) {
	case map[string]any:
		if len(path) > 0 && path[0] == "spec" {
			do(slices.Clone(path))
		}
		for key, inner := range v {
			// These become labels, selectors and quantities, whose keys are anybody's.
			if !slices.Contains([]string{"labels", "matchLabels", "selector", "nodeSelector", "requests", "limits", "annotations", "metadata"}, key) || len(path) == 0 {
				visit(inner, append(slices.Clone(path), key), do)
			}
		}
	case []any:
		for i, inner := range v {
			visit(inner, append(slices.Clone(path), fmt.Sprint(i)), do)
		}
	}
}

// TestHostileInputEndsInAMessage: whatever the fields of an original hold, there is no panic, and what is no Tfserv is an error.
func TestHostileInputEndsInAMessage(t *testing.T) {
	odd := []any{nil, "", "text", int64(-1), true, []any{}, []any{int64(1)}, map[string]any{}, map[string]any{"a": "b"}}
	for _, name := range []string{"kserve", "deployment"} {
		raw, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		all := append(objects(t, string(raw)), objects(t, service)...)
		for i, one := range all {
			for _, path := range paths(one.Object, nil) {
				if path[0] == "metadata" {
					continue // What has no name or labels is no object.
				}
				for _, value := range odd {
					changed := slices.Clone(all)
					changed[i] = one.DeepCopy()
					set(changed[i].Object, path, value)
					for _, tfserv := range Convert(changed, Options{}).Tfservs {
						if what := lacks(&tfserv.Spec); what != "" {
							t.Errorf("with %s = %#v of %s, %s has %s", strings.Join(path, "."), value, nameOf(one), tfserv.Name, what)
						}
					}
				}
			}
		}
	}
}

// paths are those of every field and item below a value, but for those of the top.
func paths(value any, at []string) (out [][]string) {
	if len(at) > 1 {
		out = append(out, at)
	}
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			out = append(out, paths(inner, append(slices.Clone(at), key))...)
		}
	case []any:
		for n, inner := range v {
			out = append(out, paths(inner, append(slices.Clone(at), strconv.Itoa(n)))...)
		}
	}
	return out
}

// set puts a value in the place of what is at a path.
func set(object map[string]any, path []string, value any) {
	in, key := rest{object}.find(path)
	switch in := in.(type) {
	case map[string]any:
		in[key] = value
	case []any:
		n, _ := strconv.Atoi(key)
		in[n] = value
	}
}

// lacks says what a Tfserv cannot do without and does not have.
func lacks(spec *v1alpha1.TfservSpec) string {
	switch {
	case len(spec.Models) == 0 && spec.ConfigMap == "":
		return "nothing to serve"
	case spec.SecretFileName != "" && spec.SecretName == "":
		return "a file of a Secret without a name"
	case spec.ModelVolume != nil && spec.ModelVolume.ClaimName == "":
		return "a volume without a claim"
	}
	return ""
}
