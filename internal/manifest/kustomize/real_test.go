package kustomize

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"mlkeeper.dev/internal/manifest/manifesttest"
)

// realInput makes an input of a real KfDef, in which every repository is the one given.
func realInput(k manifesttest.KfDef, repo fs.FS) Input {
	in := Input{Name: k.Metadata.Name, Namespace: k.Metadata.Namespace, Repos: map[string]fs.FS{}}
	for _, r := range k.Spec.Repos {
		in.Repos[r.Name] = repo
	}
	for _, a := range k.Spec.Applications {
		c := a.KustomizeConfig
		app := Application{
			Name: a.Name, Repo: c.RepoRef.Name, Path: c.RepoRef.Path, Overlays: c.Overlays, HasConfig: true, HasRepoRef: true,
		}
		for _, p := range c.Parameters {
			app.Parameters = append(app.Parameters, Parameter(p))
		}
		in.Applications = append(in.Applications, app)
	}
	return in
}

func kubeflow(t testing.TB) Input {
	k, repo := manifesttest.Kubeflow(t)
	return realInput(k, repo)
}

func openDataHub(t testing.TB) Input {
	k, repo := manifesttest.OpenDataHub(t)
	return realInput(k, repo)
}

// TestRealCounts renders the two real KfDefs and pins how many objects each application has: as many as kfctl's own code
// rendered from them (reference/kubeflow-kfdef.md, section 3.1), but for jupyterhub, for which it says 17. The archive has
// 17 files of one object each and a generated ConfigMap.
func TestRealCounts(t *testing.T) {
	cases := map[string]struct {
		in     Input
		stacks bool
		want   map[string]int
		sum    int
	}{
		"kubeflow 1.2.0": {in: kubeflow(t), stacks: true, sum: 575, want: map[string]int{
			"namespaces": 2, "application": 7, "istio-stack": 117, "cluster-local-gateway": 10, "istio": 11,
			"cert-manager-crds": 6, "cert-manager-kube-system-resources": 6, "cert-manager": 33, "metacontroller": 6,
			"oidc-authservice": 6, "dex": 11, "bootstrap": 6, "spark-operator": 10, "kubeflow-apps": 266, "knative": 57,
			"kfserving": 21,
		}},
		"open data hub 1.1.0": {in: openDataHub(t), sum: 111, want: map[string]int{
			"odh-common": 3, "odhseldon": 1, "superset": 12, "strimzi-operator": 1, "kafka-cluster": 2, "grafana-cluster": 1,
			"grafana-instance": 8, "radanalyticsio-spark-cluster": 1, "prometheus-cluster": 1, "prometheus-operator": 14,
			"jupyterhub": 18, "notebook-images": 8, "airflow-operator": 3, "airflow-cluster": 8, "odhargo-cluster": 8,
			"odhargo": 16, "odh-dashboard": 6,
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.in.Stacks() != c.stacks {
				t.Errorf("stacks mode is %v", !c.stacks)
			}
			got, sum := map[string]int{}, 0
			for _, r := range renderAll(t, c.in) {
				if r.Err != nil {
					t.Error(r.Err)
				}
				for _, w := range r.Warnings.Texts {
					t.Logf("%s: %s", r.Name, w)
				}
				got[r.Name] = len(r.Objects)
				sum += len(r.Objects)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if sum != c.sum {
				t.Errorf("%d objects, want %d", sum, c.sum)
			}
		})
	}
}

// TestLikePlainKustomize renders every application of both KfDefs a second time with plain kustomize, from the archive
// copied into its own file system and the generated kustomization, without the walk, the sanitiser and the order. What
// differs must be explained: three applications of Open Data Hub, which plain kustomize refuses until the unknown fields
// are cut out of their params.yaml, and the names of Namespaces, which it renames.
func TestLikePlainKustomize(t *testing.T) {
	for _, in := range []Input{kubeflow(t), openDataHub(t)} {
		for _, a := range in.Applications {
			t.Run(in.Name+"/"+a.Name, func(t *testing.T) {
				refused := []string{"odh-common", "prometheus-operator", "jupyterhub"}
				want, err := plainKustomize(t, in, a, false)
				if (err != nil) != slices.Contains(refused, a.Name) {
					t.Fatalf("plain kustomize: %v", err)
				}
				if err != nil {
					want, err = plainKustomize(t, in, a, true)
				}
				if err != nil {
					t.Fatal(err)
				}
				got := renderOne(in, a)
				if got.Err != nil {
					t.Fatal(got.Err)
				}
				renamed := 0
				if a.Name == "odh-common" {
					renamed = 1
				}
				for _, u := range got.Objects {
					key := keyOf(u)
					other := want[key]
					if other == nil && u.GetKind() == "Namespace" && renamed > 0 {
						renamed--
						continue
					}
					if other == nil {
						t.Errorf("plain kustomize has no %s", key)
						continue
					}
					if diff := cmp.Diff(other.Object, u.Object); diff != "" {
						t.Errorf("%s differs from plain kustomize's (-plain +ours):\n%s", key, diff)
					}
				}
				if len(got.Objects) != len(want) || renamed != 0 {
					t.Errorf("%d objects, plain kustomize has %d; %d renamed ones missed", len(got.Objects), len(want), renamed)
				}
			})
		}
	}
}

func keyOf(u *unstructured.Unstructured) string {
	return u.GetAPIVersion() + " " + u.GetKind() + " " + u.GetNamespace() + "/" + u.GetName()
}

var unknownField = regexp.MustCompile(`(?m)^\s+api(Group|Version): .*\n`)

func plainKustomize(t *testing.T, in Input, a Application, cut bool) (map[string]*unstructured.Unstructured, error) {
	t.Helper()
	prepare := prepareLegacy
	if in.Stacks() {
		prepare = prepareStacks
	}
	p, err := prepare(in, a, path.Clean(a.Path))
	if err != nil {
		t.Fatal(err)
	}
	if entry := path.Join(p.entry, kustomizationFile); !in.Stacks() && !bytes.Contains(p.tree.written[entry], []byte("\nnamespace: ")) {
		p.tree.written[entry] = append(p.tree.written[entry], "\nnamespace: "+in.Namespace+"\n"...)
	}
	disk := filesys.MakeFsInMemory()
	write := func(name string, content []byte) {
		if cut && path.Base(name) == "params.yaml" {
			content = unknownField.ReplaceAll(content, nil)
		}
		if err := disk.WriteFile(name, content); err != nil {
			t.Fatal(err)
		}
	}
	for name, file := range in.Repos[a.Repo].(fstest.MapFS) {
		write(path.Join(mount, name), file.Data)
	}
	for name, content := range p.tree.written {
		write(name, content)
	}
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsNone
	result, err := krusty.MakeKustomizer(options).Run(disk, p.entry)
	if err != nil {
		return nil, err
	}
	out := map[string]*unstructured.Unstructured{}
	for _, u := range manifesttest.Objects(t, result) {
		out[keyOf(u)] = u
	}
	return out, nil
}

// TestDeterministic renders both KfDefs twice and compares every byte.
func TestDeterministic(t *testing.T) {
	for _, in := range []Input{kubeflow(t), openDataHub(t)} {
		first, second := renderAll(t, in), renderAll(t, in)
		a, err := json.Marshal(first)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(second)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			i := 0
			for i < len(a) && i < len(b) && a[i] == b[i] {
				i++
			}
			t.Errorf("%s: two renderings differ: %s and %s", in.Name, a[max(0, i-200):min(len(a), i+200)], b[max(0, i-200):min(len(b), i+200)])
		}
	}
}

// BenchmarkRender measures the rendering of a whole KfDef.
func BenchmarkRender(b *testing.B) {
	for name, in := range map[string]Input{"kubeflow": kubeflow(b), "odh": openDataHub(b)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				renderAll(b, in)
			}
		})
	}
}
