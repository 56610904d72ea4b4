package kustomize

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// trees are repositories of this test, each with one construct of today's manifests.
const trees = "testdata/build"

// inTree is a KfDef with one application at a path of a tree, rendered as by kustomize build.
func inTree(tree, path string) Input {
	return Input{
		Name: "kfname", Namespace: "kfns", Rendering: Kustomize, Repos: map[string]fs.FS{"manifests": os.DirFS(filepath.Join(trees, tree))},
		Applications: []Application{{Name: "app", Repo: "manifests", Path: path, HasConfig: true, HasRepoRef: true}},
	}
}

// kustomizeBuild is what kustomize build prints of a folder on disk.
func kustomizeBuild(t *testing.T, dir string, restrictions types.LoadRestrictions) map[string]*unstructured.Unstructured {
	t.Helper()
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = restrictions
	result, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*unstructured.Unstructured{}
	for _, r := range result.Resources() {
		raw, err := r.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(raw); err != nil {
			t.Fatal(err)
		}
		out[keyOf(u)] = u
	}
	return out
}

// TestBuild compares the rendering of each construct with what kustomize itself gives, as sets of whole objects.
func TestBuild(t *testing.T) {
	cases := map[string]struct {
		tree, path, around string
		change             func(*Application)
		restrictions       types.LoadRestrictions
		objects            int
	}{
		"folders beside its own":        {tree: "beside", path: "apps/web/overlays/istio", objects: 2},
		"components":                    {tree: "components", path: "app/overlays/secured", objects: 3},
		"overlays of overlays":          {tree: "overlays", path: "three", objects: 3},
		"a base called Kustomization":   {tree: "overlays", path: "base", objects: 3},
		"namespaces":                    {tree: "namespaces", path: "all", objects: 8},
		"a namespace that is renamed":   {tree: "namespaces", path: "controller/default", objects: 6},
		"patches, one above the folder": {tree: "patches", path: "app", restrictions: types.LoadRestrictionsNone, objects: 4},
		"generators with hashes":        {tree: "generators", path: "overlay", objects: 5},
		"vars":                          {tree: "vars", path: "overlay", objects: 5},
		"replacements of a namespace":   {tree: "replacements", path: "app", restrictions: types.LoadRestrictionsNone, objects: 5},
		"components of the KfDef's own": {tree: "components", path: "app/base", around: "around", objects: 3, change: func(a *Application) {
			a.Components, a.Images = []string{"components/tls"}, []Image{{Name: "example.com/app", NewTag: "2"}}
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.restrictions == types.LoadRestrictionsUnknown {
				c.restrictions = types.LoadRestrictionsRootOnly
			}
			in := inTree(c.tree, c.path)
			if c.change != nil {
				c.change(&in.Applications[0])
			} else {
				c.around = c.path
			}
			want := kustomizeBuild(t, filepath.Join(trees, c.tree, c.around), c.restrictions)
			r := rendered(t, in)
			if r.Err != nil || len(r.Warnings.Texts) > 0 {
				t.Fatalf("error %v, warnings %q", r.Err, r.Warnings.Texts)
			}
			got := map[string]*unstructured.Unstructured{}
			for _, u := range r.Objects {
				got[keyOf(u)] = u
			}
			if diff := cmp.Diff(want, got); diff != "" || len(got) != c.objects {
				t.Errorf("%d objects, want %d (-kustomize +ours):\n%s", len(got), c.objects, diff)
			}
		})
	}
}

// TestBuildMetadata holds that an application has the metadata that its own kustomization asks for, whether or not its KfDef changes it: what
// comes from where is told as from its own folder.
func TestBuildMetadata(t *testing.T) {
	for _, folder := range []string{"app", "edited"} {
		in := inTree("metadata", "app")
		if folder == "edited" {
			in.Applications[0].Images = []Image{{Name: "example.com/web", NewTag: "2"}}
		}
		r := rendered(t, in)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		got := map[string]*unstructured.Unstructured{}
		for _, u := range r.Objects {
			got[keyOf(u)] = u
		}
		want := kustomizeBuild(t, filepath.Join(trees, "metadata", folder), types.LoadRestrictionsRootOnly)
		if diff := cmp.Diff(want, got); diff != "" || len(got) != 3 {
			t.Errorf("%s (-kustomize +ours):\n%s", folder, diff)
		}
	}
}

// TestBuildRefuses holds that nothing is changed so that kustomize takes it, and what an application of this rendering cannot have.
func TestBuildRefuses(t *testing.T) {
	const objects = "\n-- app/a.yaml --\n{apiVersion: config.istio.io/v1alpha2, kind: instance, metadata: {name: a}, spec: {template: text}}\n"
	cases := map[string]struct {
		files  string
		change func(*Application)
		err    string
	}{
		"a template that is a string": {files: "resources: [a.yaml]\nimages: [{name: i, newTag: '2'}]" + objects, err: "kustomize refuses its files"},
		"an unknown field of a configuration": {
			files: "resources: [a.yaml]\nconfigurations: [c.yaml]" + objects + "-- app/c.yaml --\nvarReference: [{path: data, kind: ConfigMap, apiGroup: x}]\n",
			err:   "kustomize refuses its files",
		},
		"no kustomization":         {files: "-- app/a.yaml --\n{}\n", err: "add one, or correct the path"},
		"an address":               {files: "resources: ['https://example.org/x.yaml']" + objects, err: "copy what it names into the repository"},
		"a file of the host":       {files: "configMapGenerator: [{name: x, files: [/etc/passwd]}]" + objects, err: "is not in the repository"},
		"a file above the top":     {files: "configMapGenerator: [{name: x, files: [../../etc/passwd]}]" + objects, err: "is not in the repository"},
		"overlays":                 {files: "resources: [a.yaml]" + objects, change: func(a *Application) { a.Overlays = []string{"o"} }, err: "overlays need the rendering Kfctl"},
		"parameters":               {files: "resources: [a.yaml]" + objects, change: parameters("a=b"), err: "parameters need the rendering Kfctl"},
		"a component that is gone": {files: "resources: [a.yaml]" + objects, change: func(a *Application) { a.Components = []string{"gone"} }, err: `has no folder "gone"`},
		"a component above":        {files: "resources: [a.yaml]" + objects, change: func(a *Application) { a.Components = []string{"../x"} }, err: "leaves the repository"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if !strings.HasPrefix(c.files, "-- ") {
				c.files = "-- app/kustomization.yaml --\n" + c.files
			}
			in := input(c.files, c.change)
			in.Rendering = Kustomize
			if r := rendered(t, in); r.Err == nil || !strings.Contains(r.Err.Error(), c.err) || len(r.Objects) > 0 {
				t.Errorf("error %v, want %q; objects %v", r.Err, c.err, names(r))
			}
		})
	}
	in := inTree("components", "app/base")
	in.Rendering, in.Applications[0].Components = Kfctl, []string{"components/tls"}
	if r := rendered(t, in); r.Err == nil || !strings.Contains(r.Err.Error(), "components need the rendering Kustomize") {
		t.Errorf("rendered as by kfctl, components give %v", r.Err)
	}
}

// TestStacksOfKustomize holds that the name which switches kfctl's mode means nothing to kustomize.
func TestStacksOfKustomize(t *testing.T) {
	in := inTree("namespaces", "controller/default")
	in.Applications[0].Name = stacksApplication
	if got := strings.Join(names(rendered(t, in)), ", "); !strings.Contains(got, "Namespace /controller-system") {
		t.Errorf("rendered are %s", got)
	}
}

// TestAComponentIsNoApplication has repoRef.path name a Component, which changes what others render. One with resources of its own renders these,
// as with kustomize build.
func TestAComponentIsNoApplication(t *testing.T) {
	const component = "-- app/kustomization.yaml --\napiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"
	const want = `application "app": the folder "app" is a Component, which changes what others render: name it in kustomizeConfig.components`
	prefixed := func(a *Application) { a.NamePrefix = "x-" }
	for name, c := range map[string]struct {
		files   string
		change  func(*Application)
		objects int
	}{
		"patches":              {component + "patches: [{patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: b}}'}]\n", nil, 0},
		"labels":               {component + "labels: [{pairs: {a: b}}]\n", nil, 0},
		"labels, prefixed":     {component + "labels: [{pairs: {a: b}}]\n", prefixed, 0},
		"a resource":           {component + "resources: [a.yaml]\n-- app/a.yaml --\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n", nil, 1},
		"a resource, prefixed": {component + "resources: [a.yaml]\n-- app/a.yaml --\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n", prefixed, 0},
	} {
		in := input(c.files, c.change)
		in.Rendering = Kustomize
		r := rendered(t, in)
		if told := r.Err != nil && strings.HasPrefix(r.Err.Error(), want); len(r.Objects) != c.objects || told != (c.objects == 0) {
			t.Errorf("%s: %d objects, %v", name, len(r.Objects), r.Err)
		}
	}
}
