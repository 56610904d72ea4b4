package kustomize

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"sigs.k8s.io/kustomize/api/provider"
	"sigs.k8s.io/kustomize/api/resmap"

	"mlkeeper.dev/internal/manifest/bounded"
)

// TestAddresses shows that everything by which a kustomization could have something fetched is refused by its name before
// kustomize sees it: there is no network in these tests, so that a fetch would show as another message.
func TestAddresses(t *testing.T) {
	const addressed = "names|is an address"
	cases := map[string]string{
		"resource https":       "resources: ['https://example.org/x.yaml']",
		"resource upper case":  "resources: ['HTTPS://example.org/x.yaml']",
		"resource opaque":      "resources: ['http:example.org']",
		"base git":             "bases: ['git::https://example.org/r//p?ref=x']",
		"base github":          "bases: ['github.com/kubeflow/manifests//base?ref=v1']",
		"base github as user":  "bases: ['git@github.com:kubeflow/manifests.git']",
		"base ssh":             "bases: ['ssh://git@example.org/r']",
		"base file":            "bases: ['file:///etc']",
		"base of two colons":   "bases: ['git::git@example.org:r']",
		"component":            "resources: [a.yaml]\ncomponents: ['https://example.org/c']",
		"configuration":        "resources: [a.yaml]\nconfigurations: ['https://example.org/c']",
		"crd":                  "resources: [a.yaml]\ncrds: ['https://example.org/c']",
		"configmap file":       "configMapGenerator: [{name: x, files: ['k=http://169.254.169.254/']}]",
		"configmap env":        "configMapGenerator: [{name: x, env: 'http://169.254.169.254/'}]",
		"secret envs":          "secretGenerator: [{name: x, envs: ['http://169.254.169.254/']}]",
		"strategic patch":      "resources: [a.yaml]\npatchesStrategicMerge: ['http://169.254.169.254/']",
		"JSON patch":           "resources: [a.yaml]\npatchesJson6902: [{target: {kind: ConfigMap, name: a, version: v1}, path: 'http://169.254.169.254/'}]",
		"patch":                "resources: [a.yaml]\npatches: [{path: 'http://169.254.169.254/'}]",
		"replacement":          "resources: [a.yaml]\nreplacements: [{path: 'http://169.254.169.254/'}]",
		"transformer":          "resources: [a.yaml]\ntransformers: ['http://169.254.169.254/']",
		"transformer of lines": "resources: [a.yaml]\ntransformers: [\"https://example.org/r\\n: x\"]",
		"validator":            "resources: [a.yaml]\nvalidators: ['git@example.org:r/p']",
		"generator in place": "generators: ['{apiVersion: builtin, kind: ConfigMapGenerator, metadata: {name: m}, name: x, " +
			"FILES: [\"a=http://169.254.169.254/\"]}']",
		"transformer in place": "resources: [a.yaml]\ntransformers: ['{apiVersion: builtin, kind: PatchTransformer, metadata: {name: m}, " +
			"path: \"http://169.254.169.254/\"}']",
		"replacement in place": "resources: [a.yaml]\ntransformers: ['{apiVersion: builtin, kind: ReplacementTransformer, " +
			"metadata: {name: m}, replacements: [{path: \"http://169.254.169.254/\"}]}']",
		"transformer file": "resources: [a.yaml]\ntransformers: [t.yaml]",
	}
	for name, kustomization := range cases {
		t.Run(name, func(t *testing.T) {
			files := "-- app/base/kustomization.yaml --\n" + kustomization +
				"\n-- app/base/a.yaml --\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n-- app/base/t.yaml --\n" +
				"apiVersion: builtin\nkind: PatchStrategicMergeTransformer\nmetadata: {name: m}\npaths: &p\n- http://169.254.169.254/\n"
			r := rendered(t, input(files, nil))
			if r.Err == nil || !strings.Contains(r.Err.Error(), "is an address") {
				t.Errorf("error %v, want %s", r.Err, addressed)
			}
		})
	}
}

// TestRefused shows what else does not reach kustomize, and the bounds.
func TestRefused(t *testing.T) {
	const object = "\n-- app/base/a.yaml --\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n"
	deep := "-- app/base/kustomization.yaml --\nresources: [../d0]\n"
	for i := range 100 {
		deep += fmt.Sprintf("-- app/d%d/kustomization.yaml --\nresources: [../d%d]\n", i, i+1)
	}
	base := func(text string) string { return "-- app/base/kustomization.yaml --\n" + text + object }
	cases := map[string]struct{ files, err string }{
		"file outside":          {base("resources: [../../../secret.yaml]"), "not in the application's folder"},
		"file of the host":      {base("configMapGenerator: [{name: x, files: [/etc/passwd]}]"), "not in the application's folder"},
		"env of the host":       {base("configMapGenerator: [{name: x, envs: [../../../../../../etc/passwd]}]"), "not in the application's folder"},
		"another application":   {base("resources: [../../other/a.yaml]") + "-- other/a.yaml --\n{}\n", "not in the application's folder"},
		"itself":                {base("resources: [.]"), "comes back to itself"},
		"its child's parent":    {base("resources: [sub]") + "-- app/base/sub/kustomization.yaml --\nbases: [..]\n", "comes back to itself"},
		"chart":                 {base("helmCharts: [{name: x, repo: 'https://x'}]"), "helmCharts are not rendered"},
		"old chart":             {base("helmChartInflationGenerator: [{chartName: x}]"), "helmCharts are not rendered"},
		"openapi":               {base("openapi: {path: a.yaml}"), "openapi is not supported"},
		"plugin of its own":     {base("transformers: ['{apiVersion: x.io/v1, kind: Foo, metadata: {name: m}}']"), "external plugins disabled"},
		"function in a plugin":  {base("generators: ['{apiVersion: x.io/v1, kind: Foo, metadata: {name: m, annotations: {config.kubernetes.io/function: \"exec: {path: /bin/sh}\"}}}']"), "external plugins disabled"},
		"folder of plugins":     {base("transformers: [t]") + "-- app/base/t/kustomization.yaml --\nresources: []\n", "is a folder"},
		"component as resource": {base("resources: [c]") + "-- app/base/c/kustomization.yaml --\nkind: Component\n", "kustomize refuses"},
		"component file":        {base("components: [a.yaml]"), "is a file"},
		"two kustomizations":    {base("resources: [a.yaml]") + "-- app/base/kustomization.yml --\n{}\n", "has both"},
		"unknown field":         {base("resource: [a.yaml]"), "unknown field"},
		"no YAML":               {base("resources: ["), "correct the file"},
		"no object":             {base("resources: [b.yaml]") + "-- app/base/b.yaml --\n{a: b}\n", "kustomize refuses"},
		"deep":                  {deep, "nested more than 40 deep"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := rendered(t, input(c.files, nil))
			if r.Err == nil || !strings.Contains(r.Err.Error(), c.err) {
				t.Errorf("error %v, want %q", r.Err, c.err)
			}
			if len(r.Objects) != 0 {
				t.Errorf("objects %v", names(r))
			}
		})
	}
}

// TestManyObjects shows that what is rendered is bounded, too.
func TestManyObjects(t *testing.T) {
	result, factory := resmap.New(), provider.NewDefaultDepProvider().GetResourceFactory()
	for i := range maxObjects + 1 {
		r, err := factory.FromMap(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprint("a", i)}})
		if err == nil {
			err = result.Append(r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := collect(result); err == nil || !strings.Contains(err.Error(), "renders 2001 objects, more than the 2000") {
		t.Error(err)
	}
}

// TestPanic shows that a panic below becomes the error of its application.
func TestPanic(t *testing.T) {
	in := input("", nil)
	in.Repos["manifests"] = panicFS{}
	r := renderOne(in, in.Applications[0])
	if r.Err == nil || !strings.Contains(r.Err.Error(), `application "app": kustomize gave up`) {
		t.Errorf("error %v", r.Err)
	}
}

type panicFS struct{}

func (panicFS) Open(string) (fs.File, error) { panic("odd YAML") }

// TestReadOnly shows that kustomize's own file system calls change nothing.
func TestReadOnly(t *testing.T) {
	tr := newTree(fstest.MapFS{"a/b": {Data: []byte("x")}}, ".")
	_, create := tr.Create("/x")
	_, open := tr.Open("/repository/a/b")
	for i, err := range []error{create, open, tr.Mkdir("/x"), tr.MkdirAll("/x"), tr.RemoveAll("/repository"), tr.WriteFile("/x", nil), tr.Walk("/", nil)} {
		if err == nil {
			t.Errorf("call %d is allowed", i)
		}
	}
	if got, err := tr.ReadDir("/repository/a"); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

// FuzzParamsEnv shows that a params.env never grows a line, whatever is in it, and that a second pass changes nothing.
func FuzzParamsEnv(f *testing.F) {
	f.Add("img=def\nnamespace=\nother=keep\nappName=\n", "img", "new=1")
	f.Add("generateName=\r\n", "generateName", "x")
	f.Add("0\r\r\n", "", "")
	f.Fuzz(func(t *testing.T, env, name, value string) {
		in := Input{Name: "kf", Namespace: "ns"}
		a := Application{Name: "a", Parameters: []Parameter{{Name: name, Value: strings.ReplaceAll(value, "\n", "")}}}
		once := newParams(in, a).apply([]byte(env))
		if strings.Count(string(once), "\n") > strings.Count(env, "\n")+1 {
			t.Errorf("%q became %q", env, once)
		}
		if twice := newParams(in, a).apply(once); name != "generateName" && string(twice) != string(once) {
			t.Errorf("%q became %q", once, twice)
		}
	})
}

// FuzzRender renders small trees of arbitrary content in both modes: nothing ends this process, and every application has a result.
func FuzzRender(f *testing.F) {
	f.Add("resources: [a.yaml]\nnamespace: x", "{apiVersion: v1, kind: Namespace, metadata: {name: a}}", "varReference: [{path: a/0/b}]", true)
	f.Add("bases: [../base]\npatches: [{path: b.yaml}]", "kind: List\napiVersion: v1\nitems: [{}]", "[]", false)
	f.Add("transformers: [b.yaml]\ncomponents: [..]", "- &a [*a]", "apiVersion: builtin\nkind: ImageTagTransformer", false)
	f.Add("vars: [{name: v, objref: {kind: C, name: a}}]\nresources: [a.yaml]\nconfigurations: [b.yaml]", "kind: C\nmetadata: {name: a}\nx: $(v)$(v)",
		"varReference: [{path: x}]", true)
	f.Fuzz(func(t *testing.T, kustomization, object, other string, stacks bool) {
		in := input("", nil)
		in.Repos["manifests"] = fstest.MapFS{
			"app/base/kustomization.yaml":       {Data: []byte(kustomization)},
			"app/base/a.yaml":                   {Data: []byte(object)},
			"app/base/b.yaml":                   {Data: []byte(other)},
			"app/overlays/o/kustomization.yaml": {Data: []byte("bases: [../../base]\n" + other)},
			"app/overlays/o/a.yaml":             {Data: []byte(object)},
		}
		in.Applications[0].Overlays = []string{"o"}
		if stacks {
			in.Applications[0].Path = "app/base"
			in.Applications = append(in.Applications, Application{Name: stacksApplication})
		}
		// Go ends a fuzz target after ten seconds, which a busy machine makes of one.
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		out, err := renderWithin(ctx, in, times{one: time.Second, all: 3 * time.Second, turn: time.Second})
		if ctx.Err() != nil {
			return
		}
		if err != nil || len(out) != len(in.Applications) {
			t.Errorf("%d applications, %v", len(out), err)
		}
		for _, r := range out {
			if r.Err != nil && len(r.Objects) > 0 {
				t.Errorf("objects beside the error %v", r.Err)
			}
			if r.Err != nil && strings.Contains(r.Err.Error(), "kustomize gave up") {
				t.Logf("recovered: %v", r.Err)
			}
		}
	})
}

// TestObjectsHaveAnIdentity refuses those whose name or namespace is another one in the cluster than here, or none at all.
func TestObjectsHaveAnIdentity(t *testing.T) {
	for metadata, want := range map[string]string{
		"{name: '${NUMBER}'}":                      "ConfigMap ${NUMBER}: its metadata.name is missing, no text",
		"{name: a, namespace: '${NUMBER}'}":        "ConfigMap a: its metadata.namespace is missing, no text",
		"{name: a, namespace: 2026}":               "ConfigMap a: its metadata.namespace is missing, no text",
		"{name: '${NONE:=}'}":                      "its metadata.name is missing",
		"{name: " + strings.Repeat("a", 254) + "}": "longer than 253 bytes",
		"{name: 'a${NUMBER}', namespace: ''}":      "",
	} {
		in := input("-- app/kustomization.yaml --\nresources: [a.yaml]\n-- app/a.yaml --\n{apiVersion: v1, kind: ConfigMap, metadata: "+metadata+"}",
			func(a *Application) { a.Substitute = map[string]string{"NUMBER": "2026"} })
		in.Rendering = Kustomize
		if r := rendered(t, in); want == "" && r.Err != nil || want != "" && (r.Err == nil || !strings.Contains(r.Err.Error(), want)) {
			t.Errorf("%.80s: %.300v", metadata, r.Err)
		}
	}
}

// TestLabelsAndAnnotationsAreTexts: of a Namespace with a label that is a number, the level that it enforces would be dropped without a word.
func TestLabelsAndAnnotationsAreTexts(t *testing.T) {
	for metadata, want := range map[string]string{
		"{name: a, labels: {pod-security.kubernetes.io/enforce: restricted, rev: 1}}": "Namespace a: metadata.labels.rev is a number: write it in quotes",
		"{name: a, labels: {a: b, x: true}}":                                          "Namespace a: metadata.labels.x is a boolean: write it in quotes",
		// kustomize makes texts of annotations itself.
		"{name: a, labels: {rev: '1', '${NUMBER}': '${NUMBER}'}, annotations: {a: b, x: true}}": "",
	} {
		for what, common := range map[string]map[string]string{"as they are": nil, "with others": {"team": "a"}} {
			in := input("-- app/kustomization.yaml --\nresources: [a.yaml]\n-- app/a.yaml --\n{apiVersion: v1, kind: Namespace, metadata: "+metadata+"}",
				func(a *Application) {
					a.Substitute, a.Labels, a.Annotations = map[string]string{"NUMBER": "2026"}, common, common
				})
			in.Rendering = Kustomize
			r := rendered(t, in)
			if want == "" && r.Err != nil || want != "" && (r.Err == nil || !strings.Contains(r.Err.Error(), want)) {
				t.Errorf("%s, %s: %v", metadata, what, r.Err)
			}
			if want == "" && (r.Objects[0].GetLabels()["2026"] != "2026" || r.Objects[0].GetAnnotations()["x"] != "true") {
				t.Errorf("%s: %v", what, r.Objects[0].Object)
			}
		}
	}
}

// TestErrorsAndWarningsAreBounded has paths and names without end in them: both are kept as long as the objects are.
func TestErrorsAndWarningsAreBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	r := rendered(t, input("-- app/kustomization.yaml --\nresources: ["+long+"]", nil))
	if r.Err == nil || len(r.Err.Error()) > maxText+3 {
		t.Errorf("%.300v", r.Err)
	}
	in := input("-- app/base/kustomization.yaml --\nresources: [a.yaml]\n-- app/base/a.yaml --\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}",
		func(a *Application) {
			for i := range bounded.MaxWarnings + 2 {
				a.Parameters = append(a.Parameters, Parameter{Name: fmt.Sprint(i, long[:maxText]), Value: "y"})
			}
		})
	r = rendered(t, in)
	if len(r.Warnings.Texts) != bounded.MaxWarnings || len(r.Warnings.Texts[0]) > 1<<10+3 || r.Warnings.More != 2 {
		t.Errorf("%d warnings, the first one %.300q, and %d more (%v)", len(r.Warnings.Texts), r.Warnings.Texts[0], r.Warnings.More, r.Err)
	}
	// A second application has no more of them, whoever renders it.
	in.Applications = append(in.Applications, in.Applications[0])
	in.Applications[1].Name = "second"
	all, err := Render(t.Context(), in)
	if err != nil || len(all) != 2 || len(all[0].Warnings.Texts) != bounded.MaxWarnings || len(all[1].Warnings.Texts) != 0 ||
		all[1].Warnings.More != bounded.MaxWarnings+2 {
		t.Errorf("%d applications, %v", len(all), err)
	}
	in = input("-- app/kustomization.yaml --\nresources: [../beside/"+strings.Repeat("./", len(long)/2)+"]\n-- beside/kustomization.yaml --\nnamePrefix: x", nil)
	if found, why, err := Detect(t.Context(), in); found != Kustomize || !strings.Contains(why, "refers to") || len(why) > maxText+3 {
		t.Errorf("%s, since %.300s (%v)", found, why, err)
	}
}
