//go:build realkubeflow

package kubeflow

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
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
	"mlkeeper.dev/internal/source"
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
	// store fetches what the kustomizations refer to by address.
	store *source.Store
	// values are those of the variables of applications.
	values variables
}

// open reads the checkout that MANIFESTS names.
func open(t *testing.T) *checkout {
	t.Helper()
	root := os.Getenv("MANIFESTS")
	if root == "" {
		t.Fatal("MANIFESTS names no checkout of kubeflow/manifests: run make test-kubeflow")
	}
	c := &checkout{files: fstest.MapFS{}, disk: filesys.MakeFsInMemory(), store: storeOf(t), values: variables{}}
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
		Trees: []fs.FS{c.files}, Fetch: c.fetch(t), Converter: convert.Converter{Served: func(schema.GroupVersionKind) bool { return true }},
		Result: &Result{Inputs: "inputs", Sources: []rendering.Revision{{Name: "manifests", Digest: "sha256:1"}}},
	}
	renderRun(t, cr, c.values, run)
	facts := Facts{Current: true, Result: run.Result, Namespaced: map[schema.GroupKind]bool{}}
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

// renderRun resolves the addresses of a KfDef, and renders its applications.
func renderRun(t *testing.T, cr *kubeflowv1.KfDef, values variables, run rendering.Run[Content]) {
	t.Helper()
	if problem := (resolving{values: values, run: &run}).resolve(t.Context(), cr); problem != nil {
		t.Fatal(problem)
	}
	if problem := (&system{}).render(t.Context(), cr, values, run); problem != nil {
		t.Fatal(problem)
	}
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
// what kustomize build gives, as sets of whole objects. What the kustomizations refer to by address comes from the network, or from
// folders and git repositories below the folder REMOTES, such as REMOTES/github.com/argoproj/argo-workflows. For kustomize, the test
// itself puts the same in the place of the addresses.
func TestRealKubeflowIsRenderedAsByKustomize(t *testing.T) {
	c := open(t)
	cr := c.custom(c.resources...)
	began := time.Now()
	facts := c.render(t, cr)
	took := time.Since(began)
	content := facts.Result.Content
	if content.Rendering != renderingKustomize {
		t.Errorf("the rendering is %s, since %s", content.Rendering, content.Why)
	}
	for _, fetched := range facts.Result.Fetched {
		t.Logf("fetched %s: %s", fetched.Name, fetched.Digest)
		c.place(t, fetched.Name)
	}
	same := 0
	all := map[string]*unstructured.Unstructured{}
	for i, a := range content.Applications {
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
		same++
		t.Logf("%s: %d objects, all as kustomize has them", a.Name, len(got))
	}
	t.Logf("%d of %d applications are rendered as by kustomize, with %d objects, in %s with all that is fetched",
		same, len(content.Applications), len(all), took.Round(time.Millisecond))
	p := New(Settings{}).Render(cr, facts)
	for _, problem := range p.Problems {
		t.Error(problem)
	}
	for _, w := range p.Warnings {
		t.Log(w)
	}
	c.whole(t, all)
}

// TestRealKubeflowSample renders the KfDef of config/samples, which is all of the example of Kubeflow 1.11.
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
	var listed []string
	for _, a := range cr.Spec.Applications {
		listed = append(listed, a.KustomizeConfig.RepoRef.Path)
	}
	if diff := cmp.Diff(c.resources, listed); diff != "" {
		t.Errorf("the sample does not list what the example does (-example +sample):\n%s", diff)
	}
	c.login(t, cr)
}

// login gives the sample what its page says, and holds that no credentials of the public repository are left in the Secrets.
func (c *checkout) login(t *testing.T, cr *kubeflowv1.KfDef) {
	t.Helper()
	page, err := os.ReadFile("../../docs/kubeflow-1.11.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```yaml\n")
	block, _, _ = strings.Cut(block, "```")
	var changes kubeflowv1.KfDef
	if err := yaml.UnmarshalStrict([]byte(block), &changes); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{"DEX_USER_PASSWORD": "$2y$12$hash", "OIDC_CLIENT_SECRET": "12345", "COOKIE_SECRET": "1e5"}
	for _, change := range changes.Spec.Applications {
		i := slices.IndexFunc(cr.Spec.Applications, func(a kubeflowv1.Application) bool { return a.Name == change.Name })
		cr.Spec.Applications[i].Adjustments = change.Adjustments
		c.values[i] = values
	}
	got := map[string]any{}
	for _, a := range c.render(t, cr).Result.Content.Applications {
		if a.Error != "" {
			t.Error(a.Error)
		}
		for _, o := range a.Objects {
			if o.GetKind() == "Secret" && slices.Contains([]string{"dex", "oauth2-proxy"}, a.Name) {
				name, _, _ := strings.Cut(o.GetName(), "-proxy-")
				got[name] = []any{o.Object["data"], o.Object["stringData"]}
			}
		}
	}
	const client = "a3ViZWZsb3ctb2lkYy1hdXRoc2VydmljZQ=="
	want := map[string]any{
		"dex-passwords":   []any{nil, map[string]any{"DEX_USER_PASSWORD": "$2y$12$hash"}},
		"dex-oidc-client": []any{map[string]any{"OIDC_CLIENT_ID": client}, map[string]any{"OIDC_CLIENT_SECRET": "12345"}},
		"oauth2":          []any{map[string]any{"client-id": client}, map[string]any{"client-secret": "12345", "cookie-secret": "1e5"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the credentials (-want +rendered):\n%s", diff)
	}
}

// whole renders the example as one application: it has the objects that its applications have one by one, and those that kustomize gives.
func (c *checkout) whole(t *testing.T, all map[string]*unstructured.Unstructured) {
	t.Helper()
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
		} else if at, differ := difference(all[key].Object, u.Object); differ {
			t.Logf("the example as a whole has another %s in %s (the innermost name first)", at, key)
		}
		delete(all, key)
	}
	for key := range all {
		t.Logf("only the applications one by one have %s", key)
	}
	t.Logf("the example as one application: %d objects in %s, %d MiB allocated", len(got), took, (after.TotalAlloc-before.TotalAlloc)>>20)
}

// storeOf is a store that fetches from the network, or what is below the folder REMOTES by a server on this machine.
func storeOf(t *testing.T) *source.Store {
	t.Helper()
	options := source.Options{Dir: t.TempDir()}
	if root := os.Getenv("REMOTES"); root != "" {
		git, err := exec.LookPath("git")
		if err != nil {
			t.Fatal(err)
		}
		backend := &cgi.Handler{Path: git, Args: []string{"http-backend"}, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"}}
		files := http.FileServer(http.Dir(root))
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/info/refs") || strings.HasSuffix(r.URL.Path, "/git-upload-pack") {
				backend.ServeHTTP(w, r)
				return
			}
			files.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		options.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		options.Map = []source.Mapping{{From: "https://github.com/", To: server.URL + "/github.com/"}}
	}
	store, err := source.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// fetch fetches until the test ends.
func (c *checkout) fetch(t *testing.T) func(context.Context, source.Request) (*source.Artifact, error) {
	return func(ctx context.Context, r source.Request) (*source.Artifact, error) {
		artifact, err := c.store.Fetch(ctx, r)
		if err == nil {
			t.Cleanup(artifact.Close)
		}
		return artifact, err
	}
}

var (
	address    = regexp.MustCompile(`https://[^\s'"]+`)
	repository = regexp.MustCompile(`^https://github\.com/([^/]+/[^/]+)/+([^?]*)\?ref=(.*)$`)
)

// place puts what was fetched where kustomize finds it, and paths in the place of the addresses that name it.
func (c *checkout) place(t *testing.T, uri string) {
	t.Helper()
	isFile := !strings.HasPrefix(uri, "git::")
	artifact, err := c.fetch(t)(t.Context(), source.Request{URI: uri, File: isFile})
	if err != nil {
		t.Fatal(err)
	}
	if !isFile {
		err = fs.WalkDir(artifact.FS(), "manifests", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := fs.ReadFile(artifact.FS(), name)
			if err != nil {
				return err
			}
			return c.disk.WriteFile(path.Join(top, "remote", name), content)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, file := range c.files {
		if !strings.HasPrefix(path.Base(name), "kustomization.y") {
			continue
		}
		content, err := c.disk.ReadFile(path.Join(top, name))
		if err != nil {
			t.Fatal(err)
		}
		text := address.ReplaceAllStringFunc(string(content), func(at string) string {
			if m := repository.FindStringSubmatch(at); m != nil && "git::https://github.com/"+m[1]+"?ref="+m[3] == uri {
				return strings.Repeat("../", strings.Count(name, "/")) + "remote/" + m[2]
			}
			if at != uri {
				return at
			}
			single, err := fs.ReadFile(artifact.FS(), source.FileName)
			if err == nil {
				err = c.disk.WriteFile(path.Join(top, path.Dir(name), "remote.yaml"), single)
			}
			if err != nil {
				t.Fatal(err)
			}
			return "remote.yaml"
		})
		if text != string(file.Data) {
			if err := c.disk.WriteFile(path.Join(top, name), []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
}
