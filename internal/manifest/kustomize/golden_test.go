package kustomize

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// repo makes a repository of a text in which "-- path --" stands before each file.
func repo(text string) fs.FS {
	out := fstest.MapFS{}
	for _, part := range strings.Split("\n"+text, "\n-- ")[1:] {
		name, content, _ := strings.Cut(part, " --\n")
		out[name] = &fstest.MapFile{Data: []byte(content + "\n"), Mode: 0o644}
	}
	return out
}

// one application "app" of a KfDef kfname in the namespace kfns, at path app, as in the measurements of the reference.
func input(files string, change func(*Application)) Input {
	a := Application{Name: "app", Repo: "manifests", Path: "app", HasConfig: true, HasRepoRef: true}
	if change != nil {
		change(&a)
	}
	return Input{
		Name: "kfname", Namespace: "kfns", UID: "uid-1", Repos: map[string]fs.FS{"manifests": repo(files)},
		Applications: []Application{a},
	}
}

// renderAll renders all applications.
func renderAll(t testing.TB, in Input) []Rendered {
	t.Helper()
	out, err := Render(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func rendered(t *testing.T, in Input) Rendered {
	t.Helper()
	out := renderAll(t, in)
	if len(out) != 1 {
		t.Fatalf("%d applications", len(out))
	}
	return out[0]
}

func find(t *testing.T, r Rendered, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, u := range r.Objects {
		if u.GetKind() == kind && strings.HasPrefix(u.GetName(), name) {
			return u
		}
	}
	t.Fatalf("no %s %s in %v (error %v)", kind, name, names(r), r.Err)
	return nil
}

func names(r Rendered) []string {
	var out []string
	for _, u := range r.Objects {
		out = append(out, u.GetKind()+" "+u.GetNamespace()+"/"+u.GetName())
	}
	return out
}

func parameters(pairs ...string) func(*Application) {
	return func(a *Application) {
		for _, p := range pairs {
			name, value, _ := strings.Cut(p, "=")
			a.Parameters = append(a.Parameters, Parameter{Name: name, Value: value})
		}
	}
}

const parametrised = `-- app/base/kustomization.yaml --
resources: [service.yaml]
configMapGenerator: [{name: params, env: params.env}]
generatorOptions: {disableNameSuffixHash: true}
-- app/base/params.env --
img=def
namespace=
other=keep
appName=
project=old
-- app/base/service.yaml --
{apiVersion: v1, kind: Service, metadata: {name: web}}
`

// TestParameters pins what reaches params.env and the namespace (golden facts, reference section 7).
func TestParameters(t *testing.T) {
	plain := map[string]string{"img": "def", "namespace": "kfns", "other": "keep", "appName": "kfname", "project": ""}
	with := func(name, value string) map[string]string {
		out := map[string]string{}
		for k, v := range plain {
			out[k] = v
		}
		out[name] = value
		return out
	}
	cases := map[string]struct {
		parameters []string
		want       map[string]string
		namespace  string
		warnings   []string
	}{
		"none":              {want: plain, namespace: "kfns"},
		"equals sign":       {parameters: []string{"img=new=1"}, want: with("img", "new=1"), namespace: "kfns"},
		"namespace":         {parameters: []string{"namespace=other-ns"}, want: with("namespace", "other-ns"), namespace: "other-ns"},
		"empty value":       {parameters: []string{"img="}, want: plain, namespace: "kfns"},
		"last one wins":     {parameters: []string{"img=a", "img=b"}, want: with("img", "b"), namespace: "kfns"},
		"special name":      {parameters: []string{"appName=mine"}, want: with("appName", "mine"), namespace: "kfns"},
		"project given":     {parameters: []string{"project=gcp"}, want: with("project", "gcp"), namespace: "kfns"},
		"namespace emptied": {parameters: []string{"namespace="}, want: plain, namespace: "kfns"},
		"unknown name": {
			parameters: []string{"nobody=x"}, want: plain, namespace: "kfns",
			warnings: []string{`parameter "nobody" is ignored: no params.env has a line for it`},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := rendered(t, input(parametrised, parameters(c.parameters...)))
			data, _, _ := unstructured.NestedStringMap(find(t, r, "ConfigMap", "params").Object, "data")
			if diff := cmp.Diff(c.want, data); diff != "" {
				t.Error(diff)
			}
			for _, u := range r.Objects {
				if u.GetNamespace() != c.namespace {
					t.Errorf("%s is in namespace %q", u.GetName(), u.GetNamespace())
				}
			}
			if diff := cmp.Diff(c.warnings, r.Warnings.Texts); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestGenerateName shows that the name which kfctl drew at every rendering stays, and differs between KfDefs and
// applications.
func TestGenerateName(t *testing.T) {
	of := func(uid, app, env string) string {
		in := Input{Name: "kf", Namespace: "ns", UID: uid}
		a := Application{Name: app, Parameters: []Parameter{{Name: "generateName", Value: "run-"}}}
		return string(newParams(in, a).apply([]byte(env)))
	}
	first := of("u1", "a", "generateName=\n")
	if len(first) != len("generateName=run-12345678\n") || first != of("u1", "a", "generateName") {
		t.Errorf("%q, %q", first, of("u1", "a", "generateName"))
	}
	for _, other := range []string{of("u2", "a", "generateName="), of("u1", "b", "generateName="), of("", "a", "generateName=")} {
		if other == first {
			t.Errorf("%q twice", other)
		}
	}
	if got := of("u1", "a", "generateName=old"); got != "generateName=run-\n" {
		t.Errorf("a line with a value became %q", got)
	}
}

const overlaid = `-- app/base/kustomization.yaml --
resources: [deployment.yaml]
-- app/base/deployment.yaml --
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template: {spec: {containers: [{name: c, image: "old:1"}]}}
-- app/overlays/o1/kustomization.yaml --
bases: [../../base]
resources: [one.yaml]
namePrefix: p1-
commonLabels: {from: o1}
images: [{name: old, newTag: from-o1}]
-- app/overlays/o1/one.yaml --
{apiVersion: v1, kind: Service, metadata: {name: one}}
-- app/overlays/o2/kustomization.yaml --
bases: [../../base]
resources: [two.yaml]
namePrefix: p2-
commonLabels: {from: o2}
images: [{name: old, newTag: from-o2}]
namespace: elsewhere
replicas: [{name: web, count: 7}]
patches: [{target: {kind: Deployment}, patch: "[{op: remove, path: /spec}]"}]
patchesJson6902:
- {target: {group: apps, version: v1, kind: Deployment, name: web}, patch: "[{op: remove, path: /spec}]"}
- {target: {group: apps, version: v1, kind: Deployment, name: web}, path: patch.yaml}
-- app/overlays/o2/two.yaml --
{apiVersion: v1, kind: Service, metadata: {name: two}}
-- app/overlays/o2/patch.yaml --
- {op: add, path: /spec/paused, value: true}
-- app/overlays/o3/kustomization.yaml --
resources: [../../base]
-- app/overlays/o4/kustomization.yaml --
bases: [../../base]
configMapGenerator: [{name: made, files: [lost.txt, made.txt]}]
secretGenerator: [{name: hidden, literals: [a=b]}]
generatorOptions: {disableNameSuffixHash: true}
-- app/overlays/o4/lost.txt --
lost=1
-- app/overlays/o4/made.txt --
kept=1
-- app/overlays/o5/other.yaml --
{}
`

// TestOverlays pins the merge of overlays (golden facts, reference section 7).
func TestOverlays(t *testing.T) {
	r := rendered(t, input(overlaid, func(a *Application) { a.Overlays = []string{"o1", "o2"} }))
	want := []string{"Service kfns/p1-one", "Service kfns/p1-two", "Deployment kfns/p1-web"}
	if diff := cmp.Diff(want, names(r)); diff != "" || r.Err != nil {
		t.Fatalf("%v\n%s", r.Err, diff)
	}
	for _, u := range r.Objects {
		if u.GetLabels()["from"] != "o2" {
			t.Errorf("%s has label %q: the last overlay wins", u.GetName(), u.GetLabels()["from"])
		}
	}
	d := find(t, r, "Deployment", "p1-web").Object
	containers, _, _ := unstructured.NestedSlice(d, "spec", "template", "spec", "containers")
	if got := fmt.Sprint(containers); !strings.Contains(got, "old:from-o1") {
		t.Errorf("containers %s: the first image wins", got)
	}
	if paused, _, _ := unstructured.NestedBool(d, "spec", "paused"); !paused {
		t.Error("the JSON patch in a file has no effect")
	}
	if _, found, _ := unstructured.NestedFieldNoCopy(d, "spec", "replicas"); found {
		t.Error("replicas of an overlay have an effect, which they had not in kfctl")
	}
	warnings := []string{"app/overlays/o2/kustomization.yaml: inline patchesJson6902, namespace, patches, replicas ignored, as kfctl did, " +
		"which merged only the fields of its time"}
	if diff := cmp.Diff(warnings, r.Warnings.Texts); diff != "" {
		t.Error(diff)
	}
}

// TestOverlayFiles pins what kfctl made of generated ConfigMaps and Secrets of overlays.
func TestOverlayFiles(t *testing.T) {
	r := rendered(t, input(overlaid, func(a *Application) { a.Overlays = []string{"o4"} }))
	data, _, _ := unstructured.NestedStringMap(find(t, r, "ConfigMap", "made").Object, "data")
	if diff := cmp.Diff(map[string]string{"kept": "1"}, data); diff != "" || len(r.Warnings.Texts) != 1 {
		t.Errorf("warnings %v\n%s", r.Warnings.Texts, diff)
	}
	find(t, r, "Secret", "hidden")
}

// TestApplications pins what is an error, what is empty and what is ignored. An error says what to change.
func TestApplications(t *testing.T) {
	const flat = `-- app/kustomization.yaml --
resources: [cm.yaml]
-- app/cm.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: cm}}
-- app/params.env --
img=def
`
	cases := map[string]struct {
		files   string
		change  func(*Application)
		objects int
		err     string
		warning string
	}{
		"base only":                    {files: overlaid, objects: 1},
		"flat":                         {files: flat, objects: 1},
		"flat with overlays":           {files: flat, change: func(a *Application) { a.Overlays = []string{"o1"} }, objects: 1, warning: "overlays o1 are ignored"},
		"flat with parameters":         {files: flat, change: parameters("img=x", "namespace=y"), objects: 1, warning: "parameters img, namespace are ignored"},
		"no kustomization":             {files: "-- app/readme.md --\n", warning: "nothing is rendered"},
		"overlay names its base again": {files: overlaid, change: func(a *Application) { a.Overlays = []string{"o3"} }, err: "already registered id"},
		"overlay without a kustomization": {
			files: overlaid, change: func(a *Application) { a.Overlays = []string{"o5"} }, err: "app/overlays/o5/kustomization.yaml is missing",
		},
		"missing overlay": {files: overlaid, change: func(a *Application) { a.Overlays = []string{"nowhere"} }, err: `overlay "nowhere" is not in the repository`},
		"missing path":    {files: overlaid, change: func(a *Application) { a.Path = "nowhere" }, err: `has no folder "nowhere"`},
		"path to a file":  {files: overlaid, change: func(a *Application) { a.Path = "app/base/deployment.yaml" }, err: "has no folder"},
		"missing repo":    {files: overlaid, change: func(a *Application) { a.Repo = "nowhere" }, err: `repository "nowhere" is not in spec.repos`},
		"no config":       {files: overlaid, change: func(a *Application) { a.HasConfig = false }, err: "has no kustomizeConfig"},
		"no repoRef":      {files: overlaid, change: func(a *Application) { a.HasRepoRef = false }, err: "has no repoRef"},
		"no name":         {files: overlaid, change: func(a *Application) { a.Name = "" }, err: "has no name"},
		"path up":         {files: overlaid, change: func(a *Application) { a.Path = "../x" }, err: "leaves the repository"},
		"path up inside":  {files: overlaid, change: func(a *Application) { a.Path = "app/../../app" }, err: "leaves the repository"},
		"path absolute":   {files: overlaid, change: func(a *Application) { a.Path = "/app" }, err: "is absolute"},
		"path with NUL":   {files: overlaid, change: func(a *Application) { a.Path = "app\x00" }, err: "a path cannot have"},
		"path with dots":  {files: overlaid, change: func(a *Application) { a.Path = "./app/" }, objects: 1},
		"name up":         {files: overlaid, change: func(a *Application) { a.Name = "../../etc" }, err: "leaves the repository"},
		"overlay up":      {files: overlaid, change: func(a *Application) { a.Overlays = []string{"../../.."} }, err: "leaves the repository"},
		"overlay as app":  {files: overlaid, change: func(a *Application) { a.Path = "app/overlays/o1" }, err: "not in the application's folder"},
		"images of its own": {files: overlaid, change: func(a *Application) {
			a.Images = []Image{{Name: "old", NewName: "new", Digest: "sha256:1"}}
		}, objects: 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := rendered(t, input(c.files, c.change))
			if c.err == "" && r.Err != nil || c.err != "" && (r.Err == nil || !strings.Contains(r.Err.Error(), c.err)) {
				t.Fatalf("error %v, want %q", r.Err, c.err)
			}
			if len(r.Objects) != c.objects {
				t.Errorf("objects %v", names(r))
			}
			if c.warning != "" && !strings.Contains(strings.Join(r.Warnings.Texts, "\n"), c.warning) || c.warning == "" && len(r.Warnings.Texts) > 0 {
				t.Errorf("warnings %q, want %q", r.Warnings.Texts, c.warning)
			}
			for _, u := range r.Objects {
				if u.GetNamespace() != "kfns" {
					t.Errorf("%s is in namespace %q", u.GetName(), u.GetNamespace())
				}
			}
		})
	}
}

// TestOneOfMany shows that an application that fails stops no other, and that a name counts once: internal/kubeflow tells the second.
func TestOneOfMany(t *testing.T) {
	in := input(overlaid, nil)
	good := in.Applications[0]
	bad := Application{Name: "bad"}
	in.Applications = []Application{bad, good, good}
	out := renderAll(t, in)
	if out[0].Err == nil || !strings.Contains(out[0].Err.Error(), `application "bad"`) || len(out[1].Objects) != 1 ||
		len(out[2].Objects) != 0 || len(out[2].Warnings.Texts) != 0 || out[2].Err != nil {
		t.Errorf("%+v", out)
	}
}

// TestStacks shows the second mode: paths as they are, no namespace, everything else ignored with a warning.
func TestStacks(t *testing.T) {
	in := input(overlaid, func(a *Application) {
		a.Path, a.Overlays = "app/overlays/o1", []string{"o2"}
		a.Parameters = []Parameter{{Name: "namespace", Value: "x"}}
	})
	in.Applications = append(in.Applications, Application{Name: "kubeflow-apps", HasConfig: true, HasRepoRef: true, Repo: "manifests", Path: "gone"})
	out := renderAll(t, in)
	if diff := cmp.Diff([]string{"Service /p1-one", "Deployment /p1-web"}, names(out[0])); diff != "" || out[0].Err != nil {
		t.Errorf("%v\n%s", out[0].Err, diff)
	}
	if len(out[0].Warnings.Texts) != 1 || !strings.Contains(out[0].Warnings.Texts[0], "overlays and parameters ignored") {
		t.Errorf("warnings %q", out[0].Warnings.Texts)
	}
	if out[1].Err == nil {
		t.Error("the missing path is no error")
	}
}

// TestSanitised shows the four causes for which today's kustomize refuses trees of 2020 (reference, section 3.2), each of
// which plain kustomize still refuses, and the Namespaces that it renames.
func TestSanitised(t *testing.T) {
	const head = "-- app/base/kustomization.yaml --\nresources: [a.yaml]\n"
	cases := map[string]struct {
		files   string
		refuses bool
		check   func(*testing.T, Rendered)
	}{
		"index in a path": {refuses: true, files: head + `configurations: [c.yaml]
vars: [{name: v, objref: {apiVersion: v1, kind: ConfigMap, name: a}, fieldref: {fieldpath: metadata.name}}]
-- app/base/c.yaml --
varReference:
- {path: spec/containers/0/image, kind: Pod}
- {path: data/v, kind: ConfigMap}
-- app/base/a.yaml --
{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {v: $(v)}}
`, check: func(t *testing.T, r Rendered) {
			if v, _, _ := unstructured.NestedString(find(t, r, "ConfigMap", "a").Object, "data", "v"); v != "a" || len(r.Warnings.Texts) != 1 {
				t.Errorf("data.v %q, warnings %q", v, r.Warnings.Texts)
			}
		}},
		"unknown field": {refuses: true, files: head + `configurations: [c.yaml]
-- app/base/c.yaml --
varReference: [{path: data, kind: ConfigMap, apiGroup: x}]
nameReference: [{kind: ConfigMap, apiVersion: v1, fieldSpecs: [{path: spec/x, kind: Pod, apiVersion: v1}]}]
-- app/base/a.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
`, check: func(t *testing.T, r Rendered) { find(t, r, "ConfigMap", "a") }},
		"template that is a string": {refuses: true, files: head + `images: [{name: i, newTag: "2"}]
-- app/base/a.yaml --
{apiVersion: config.istio.io/v1alpha2, kind: instance, metadata: {name: a}, spec: {template: authzadaptor}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}
`, check: func(t *testing.T, r Rendered) {
			got, _, _ := unstructured.NestedString(find(t, r, "instance", "a").Object, "spec", "template")
			containers, _, _ := unstructured.NestedSlice(find(t, r, "Pod", "p").Object, "spec", "containers")
			if got != "authzadaptor" || !strings.Contains(fmt.Sprint(containers), "i:2") {
				t.Errorf("template %q, containers %v", got, containers)
			}
		}},
		"volumes of a PodSecurityPolicy": {refuses: true, files: head + `images: [{name: i, newTag: "2"}]
-- app/base/a.yaml --
{apiVersion: policy/v1beta1, kind: PodSecurityPolicy, metadata: {name: a}, spec: {volumes: [secret, "*"]}}
`, check: func(t *testing.T, r Rendered) {
			got, _, _ := unstructured.NestedStringSlice(find(t, r, "PodSecurityPolicy", "a").Object, "spec", "volumes")
			if diff := cmp.Diff([]string{"secret", "*"}, got); diff != "" {
				t.Error(diff)
			}
		}},
		"namespaces keep their names": {refuses: true, files: head + `configurations: [c.yaml]
-- app/base/c.yaml --
namespace: [{path: spec/where, kind: Widget, create: true}]
-- app/base/a.yaml --
{apiVersion: v1, kind: Namespace, metadata: {name: anonymous}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: second}}
---
{apiVersion: v1, kind: Service, metadata: {name: s, namespace: anonymous}}
---
{apiVersion: x.io/v1, kind: Widget, metadata: {name: w}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: b}, subjects: [{kind: ServiceAccount, name: default}]}
`, check: func(t *testing.T, r Rendered) {
			want := []string{"Namespace /anonymous", "Namespace /second", "RoleBinding kfns/b", "Service kfns/s", "Widget kfns/w"}
			if diff := cmp.Diff(want, names(r)); diff != "" {
				t.Error(diff)
			}
			where, _, _ := unstructured.NestedString(find(t, r, "Widget", "w").Object, "spec", "where")
			subjects, _, _ := unstructured.NestedSlice(find(t, r, "RoleBinding", "b").Object, "subjects")
			if where != "kfns" || !strings.Contains(fmt.Sprint(subjects), "kfns") {
				t.Errorf("spec.where %q, subjects %v", where, subjects)
			}
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in := input(c.files, nil)
			if _, err := plainKustomize(t, in, in.Applications[0], false); (err != nil) != c.refuses {
				t.Errorf("plain kustomize: %v", err)
			}
			r := rendered(t, in)
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			c.check(t, r)
		})
	}
}

// TestOrder pins the order of kinds within an application.
func TestOrder(t *testing.T) {
	kinds := []string{"Zebra", "APIService", "Ingress", "Deployment", "Service", "CustomResourceDefinition", "Secret", "Namespace", "Ant"}
	var files strings.Builder
	files.WriteString("-- app/base/kustomization.yaml --\nresources: [a.yaml]\n-- app/base/a.yaml --\n")
	for _, kind := range kinds {
		fmt.Fprintf(&files, "---\n{apiVersion: v1, kind: %s, metadata: {name: n}}\n", kind)
	}
	r := rendered(t, input(files.String(), nil))
	var got []string
	for _, u := range r.Objects {
		got = append(got, u.GetKind())
	}
	want := []string{"Namespace", "Secret", "CustomResourceDefinition", "Service", "Deployment", "Ingress", "APIService", "Ant", "Zebra"}
	if diff := cmp.Diff(want, got); diff != "" || r.Err != nil {
		t.Errorf("%v\n%s", r.Err, diff)
	}
}

// TestRel shows paths as seen from an application's folder, those that leave it too.
func TestRel(t *testing.T) {
	l := &legacy{dir: path.Join(mount, "a/b")}
	for p, want := range map[string]string{
		"../../base": "base", ".": "overlays/o", "x.yaml": "overlays/o/x.yaml", "../..": ".", "../../../c": "../c",
		"../../../../d": "../../d", "../../../../../..": "../../../", "https://x/y": "https://x/y",
	} {
		if got := l.rel(path.Join(mount, "a/b/overlays/o"), p); got != want {
			t.Errorf("%s: %q, want %q", p, got, want)
		}
	}
}
