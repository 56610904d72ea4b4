//go:build realkubeflow

package kubeflow

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/manifest/convert"
	"mlkeeper.dev/internal/manifest/kustomize"
	"mlkeeper.dev/internal/rendering"
)

// withComponents is the application that the components of Kubeflow's example change; alone, they cannot be built.
const withComponents = "applications/profiles/pss"

// top is where kustomize finds the checkout, and around a kustomization around one application.
const top, around = "/manifests", "/manifests/mlkeeper-around"

// checkout is a checkout of kubeflow/manifests, for MLKeeper and for kustomize, with what its example lists.
type checkout struct {
	files     fstest.MapFS
	disk      filesys.FileSystem
	resources []string
	component []string
}

// open reads the checkout that MANIFESTS names.
func open(t *testing.T) *checkout {
	t.Helper()
	root := os.Getenv("MANIFESTS")
	if root == "" {
		t.Fatal("MANIFESTS names no checkout of kubeflow/manifests: run make test-kubeflow")
	}
	c := &checkout{files: fstest.MapFS{}, disk: filesys.MakeFsInMemory()}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == ".git":
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		return c.write(filepath.ToSlash(relative), content)
	})
	if err != nil {
		t.Fatal(err)
	}
	var example struct{ Resources, Components []string }
	if err := yaml.Unmarshal(c.files["example/kustomization.yaml"].Data, &example); err != nil {
		t.Fatal(err)
	}
	for _, r := range example.Resources {
		c.resources = append(c.resources, path.Join("example", r))
	}
	for _, r := range example.Components {
		c.component = append(c.component, path.Join("example", r))
	}
	return c
}

func (c *checkout) write(name string, content []byte) error {
	c.files[name] = &fstest.MapFile{Data: content, Mode: 0o644}
	return c.disk.WriteFile(path.Join(top, name), content)
}

// custom is a KfDef with applications of these paths.
func (c *checkout) custom(paths ...string) *kubeflowv1.KfDef {
	cr := &kubeflowv1.KfDef{}
	cr.Name, cr.Namespace, cr.UID = "kubeflow", "kubeflow", "uid"
	cr.Spec.Repos = []kubeflowv1.Repo{{Name: "manifests", URI: "https://example.test/manifests.tar.gz"}}
	for _, p := range paths {
		one := kubeflowv1.Application{Name: p, KustomizeConfig: &kubeflowv1.KustomizeConfig{RepoRef: &kubeflowv1.RepoRef{Name: "manifests", Path: p}}}
		if p == withComponents {
			one.KustomizeConfig.Components = c.component
		}
		cr.Spec.Applications = append(cr.Spec.Applications, one)
	}
	return cr
}

// render renders a KfDef as the manager does for a cluster that serves everything.
func (c *checkout) render(t *testing.T, cr *kubeflowv1.KfDef) Facts {
	t.Helper()
	run := rendering.Run[Content]{
		Trees: []fs.FS{c.files}, Converter: convert.Converter{Served: func(schema.GroupVersionKind) bool { return true }},
		Result: &Result{Inputs: "inputs", Sources: []rendering.Revision{{Name: "manifests", Digest: "sha256:1"}}},
	}
	if problem := render(cr, run); problem != nil {
		t.Fatal(problem)
	}
	facts := Facts{Result: run.Result, Namespaced: map[schema.GroupKind]bool{}}
	for _, a := range run.Result.Content.Applications {
		for _, o := range a.Objects {
			if namespaced, known := kustomize.Namespaced(o.GroupVersionKind()); known {
				facts.Namespaced[o.GroupVersionKind().GroupKind()] = namespaced
			}
		}
	}
	scopes(facts.Result, facts.Namespaced)
	return facts
}

// build is what kustomize build prints of a folder.
func (c *checkout) build(t *testing.T, dir string) map[string]*unstructured.Unstructured {
	t.Helper()
	result, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(c.disk, dir)
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, r := range result.Resources() {
		raw, err := r.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(raw); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, u)
	}
	return byKey(t, objects)
}

// buildApplication is what kustomize build prints of an application.
func (c *checkout) buildApplication(t *testing.T, a kubeflowv1.Application) map[string]*unstructured.Unstructured {
	t.Helper()
	dir := path.Join(top, a.KustomizeConfig.RepoRef.Path)
	if len(a.KustomizeConfig.Components) == 0 {
		return c.build(t, dir)
	}
	text := "resources: [../" + a.KustomizeConfig.RepoRef.Path + "]\ncomponents: [../" + strings.Join(a.KustomizeConfig.Components, ", ../") + "]\n"
	if err := c.disk.WriteFile(path.Join(around, "kustomization.yaml"), []byte(text)); err != nil {
		t.Fatal(err)
	}
	return c.build(t, around)
}

func byKey(t *testing.T, objects []*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	t.Helper()
	out := map[string]*unstructured.Unstructured{}
	for _, u := range objects {
		key := fmt.Sprintf("%s %s %s/%s", u.GetAPIVersion(), u.GetKind(), u.GetNamespace(), u.GetName())
		if out[key] != nil {
			t.Errorf("%s is there twice", key)
		}
		out[key] = u
	}
	return out
}

// TestRealKubeflowIsRenderedAsByKustomize compares each application of Kubeflow's example, and the whole of it as one application, with
// what kustomize build gives, as sets of whole objects. Of the applications that refer to an address it holds that they are refused for
// that address.
func TestRealKubeflowIsRenderedAsByKustomize(t *testing.T) {
	c := open(t)
	cr := c.custom(c.resources...)
	facts := c.render(t, cr)
	content := facts.Result.Content
	if content.Rendering != renderingKustomize {
		t.Errorf("the rendering is %s, since %s", content.Rendering, content.Why)
	}
	var same, refused []string
	all := map[string]*unstructured.Unstructured{}
	for i, a := range content.Applications {
		if address := addressed(a.Error); address != "" {
			refused = append(refused, a.Name)
			if !c.names(address) {
				t.Errorf("%s: no kustomization names %s", a.Name, address)
			}
			continue
		}
		if a.Error != "" {
			t.Errorf("%s: %s", a.Name, a.Error)
			continue
		}
		want, got := c.buildApplication(t, cr.Spec.Applications[i]), byKey(t, a.Objects)
		for key, u := range got {
			if all[key] != nil {
				t.Errorf("%s: another application has %s", a.Name, key)
			}
			all[key] = u
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s differs from kustomize's (-kustomize +ours):\n%s", a.Name, diff)
			continue
		}
		same = append(same, a.Name)
		t.Logf("%s: %d objects, all as kustomize has them", a.Name, len(got))
	}
	t.Logf("%d of %d applications are rendered as by kustomize, with %d objects; %d are refused, since they refer to addresses: %s",
		len(same), len(content.Applications), len(all), len(refused), strings.Join(refused, ", "))
	p := New(Settings{}).Render(cr, facts)
	if len(p.Problems) != len(refused) {
		t.Errorf("problems %v", p.Problems)
	}
	for _, w := range p.Warnings {
		t.Log(w)
	}
	c.whole(t, refused, all)
}

// TestRealKubeflowSample renders the KfDef of config/samples, which is of Kubeflow 1.11, and names what of the example it leaves out.
func TestRealKubeflowSample(t *testing.T) {
	c := open(t)
	raw, err := os.ReadFile("../../config/samples/kfdef-kubeflow-1.11.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cr := &kubeflowv1.KfDef{}
	if err := yaml.UnmarshalStrict(raw, cr); err != nil {
		t.Fatal(err)
	}
	cr.Namespace = "kubeflow"
	p := New(Settings{}).Render(cr, c.render(t, cr))
	if len(p.Problems)+len(p.Warnings) > 0 {
		t.Errorf("problems %v, warnings %q", p.Problems, p.Warnings)
	}
	left := slices.DeleteFunc(slices.Clone(c.resources), func(r string) bool {
		return slices.ContainsFunc(cr.Spec.Applications, func(a kubeflowv1.Application) bool { return a.KustomizeConfig.RepoRef.Path == r })
	})
	t.Logf("%d applications; of the example it leaves out %s", len(cr.Spec.Applications), strings.Join(left, ", "))
}

// whole renders the example as one application, without the applications that are refused: it has the objects that its applications
// have one by one, and those that kustomize gives.
func (c *checkout) whole(t *testing.T, refused []string, all map[string]*unstructured.Unstructured) {
	t.Helper()
	text := string(c.files["example/kustomization.yaml"].Data)
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool {
		return slices.ContainsFunc(refused, func(name string) bool { return strings.HasPrefix(line, "- ../"+name) })
	})
	if err := c.write("example/kustomization.yaml", []byte(strings.Join(lines, "\n"))); err != nil {
		t.Fatal(err)
	}
	want := c.build(t, path.Join(top, "example"))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	facts := c.render(t, c.custom("example"))
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	one := facts.Result.Content.Applications[0]
	if one.Error != "" || facts.Result.Content.Rendering != renderingKustomize {
		t.Fatalf("%s: %s", facts.Result.Content.Rendering, one.Error)
	}
	got := byKey(t, one.Objects)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the example differs from kustomize's (-kustomize +ours):\n%s", diff)
	}
	// kustomize gives other objects for the whole than for its parts where a part uses what another one names, such as a var.
	for key, u := range got {
		if all[key] == nil {
			t.Logf("only the example as a whole has %s", key)
		} else if at := difference("", all[key].Object, u.Object); at != "" {
			t.Logf("the example as a whole has another %s in %s", at, key)
		}
		delete(all, key)
	}
	for key := range all {
		t.Logf("only the applications one by one have %s", key)
	}
	t.Logf("the example as one application: %d objects in %s, %d MiB allocated", len(got), took, (after.TotalAlloc-before.TotalAlloc)>>20)
}

// addressed is the address for which an application is refused; empty for another error.
func addressed(text string) string {
	before, _, found := strings.Cut(text, `" is an address`)
	if !found {
		return ""
	}
	return before[strings.LastIndex(before, `"`)+1:]
}

// names says that a kustomization of the checkout names a text.
func (c *checkout) names(text string) bool {
	for name, file := range c.files {
		if strings.HasPrefix(path.Base(name), "kustomization.y") && strings.Contains(string(file.Data), text) {
			return true
		}
	}
	return false
}
