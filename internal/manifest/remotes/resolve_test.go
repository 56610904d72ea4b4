package remotes

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// archive reads a tree that is written as "-- name --" and content.
func archive(text string) fstest.MapFS {
	out := fstest.MapFS{}
	for _, part := range strings.Split("\n"+text, "\n-- ")[1:] {
		name, content, _ := strings.Cut(part, " --\n")
		out[name] = &fstest.MapFile{Data: []byte(content + "\n"), Mode: 0o444}
	}
	return out
}

const configMap = "{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}, data: {key: value}}"

// world is what there is to fetch.
type world map[string]fstest.MapFS

var errGone = errors.New("is gone")

// input resolves from a world the addresses that the folders of a repository reach, each as an application, and counts what is asked for.
func (w world) input(asked *[]string, repo fs.FS, dirs ...string) Input {
	in := Input{Repos: map[string]fs.FS{"r": repo}, FileName: "file", Fetch: func(a Address) (fs.FS, error) {
		*asked = append(*asked, a.URI)
		if tree, found := w[a.URI]; found {
			return tree, nil
		}
		return nil, errGone
	}}
	for _, dir := range dirs {
		in.Applications = append(in.Applications, Application{Repo: "r", Dirs: []string{dir}})
	}
	return in
}

// resolved is what becomes of an input, and the error of its first application.
func resolved(t *testing.T, in Input) (fs.FS, error) {
	t.Helper()
	out, err := Resolve(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out.Repos["r"], out.Errors[0]
}

var there = world{
	"git::https://github.com/argo/flows?ref=v3.7.3": archive(`
-- manifests/crds/kustomization.yaml --
resources: [../base]
-- manifests/base/kustomization.yaml --
namePrefix: flows-
resources: [controller.yaml]
-- manifests/base/controller.yaml --
` + fmt.Sprintf(configMap, "controller") + `
-- component/kustomization.yaml --
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
commonAnnotations: {by: component}
-- onward/kustomization.yaml --
resources: ["https://example.org/team/more//deep?ref=0123456789012345678901234567890123456789"]
-- escapes/kustomization.yaml --
resources: [../../../../secret]
-- round/kustomization.yaml --
resources: ["github.com/argo/flows/about?ref=v3.7.3"]
-- about/kustomization.yaml --
resources: ["https://github.com/argo/flows//round?ref=v3.7.3"]`),
	"git::https://example.org/team/more?ref=0123456789012345678901234567890123456789": archive(`
-- deep/kustomization.yml --
resources: [more.yaml]
-- deep/more.yaml --
` + fmt.Sprintf(configMap, "more")),
	"https://github.com/job/set/releases/download/v0.10.1/manifests.yaml": archive("-- file --\n" + fmt.Sprintf(configMap, "jobset")),
	"https://example.org/v1.0.0/patch.yml":                                archive("-- file --\n{apiVersion: v1, kind: ConfigMap, metadata: {name: own}, data: {key: patched}}"),
	"https://example.org/v1.0.0/patch.json":                               archive(`-- file --` + "\n" + `[{"op": "add", "path": "/data/more", "value": "json"}]`),
}

// here is a repository that uses all of it.
const here = `
-- app/kustomization.yaml --
# As Kubeflow Pipelines and Trainer do.
namespace: kubeflow
resources:
- own.yaml
- https://github.com/argo/flows/manifests/crds?ref=v3.7.3
- &release "https://github.com/job/set/releases/download/v0.10.1/manifests.yaml"
- ../side
components: ["git::https://github.com/argo/flows//component?ref=v3.7.3&timeout=90s"]
patches:
- path: https://example.org/v1.0.0/patch.json
  target: {kind: ConfigMap, name: own}
patchesStrategicMerge: [https://example.org/v1.0.0/patch.yml]
-- app/own.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: own}, data: {key: value}}
-- side/kustomization.yaml --
nameSuffix: -side
Resources: ["https://github.com/argo/flows/onward?ref=v3.7.3"]
-- example/kustomization.yaml --
resources: [../app, ../controller/overlay, ../plain]
replacements:
- source: {kind: ConfigMap, name: own, fieldPath: data.more}
  targets: [{select: {kind: ConfigMap, name: plain}, fieldPaths: [data.key]}]
-- controller/default/kustomization.yaml --
namespace: controller-system
resources: [objects.yaml]
-- controller/default/objects.yaml --
{apiVersion: v1, kind: Namespace, metadata: {name: system}}
---
{apiVersion: v1, kind: Service, metadata: {name: controller, namespace: system}, spec: {ports: [{port: 80}]}}
-- controller/overlay/kustomization.yaml --
namespace: kubeflow
resources: [../default]
patches: [{path: no-namespace.yaml}]
-- controller/overlay/no-namespace.yaml --
{$patch: delete, apiVersion: v1, kind: Namespace, metadata: {name: controller-system}}
-- plain/kustomization.yaml --
resources: [object.yaml]
-- plain/object.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: plain}, data: {key: value}}`

// TestAddressesBecomePaths renders a repository whose addresses were resolved, and compares it with one in which they are paths from
// the beginning, which kustomize renders itself. It is one application with all that Kubeflow's example has: folders and files at
// addresses, components, replacements, a Namespace that is renamed and then deleted, and an object that names none.
func TestAddressesBecomePaths(t *testing.T) {
	var asked []string
	files := strings.ReplaceAll(here, `&release `, "")
	tree, err := resolved(t, there.input(&asked, archive(files), "example"))
	if err != nil {
		t.Fatal(err)
	}
	if len(asked) != 5 || len(slices.Compact(slices.Sorted(slices.Values(asked)))) != 5 {
		t.Errorf("asked for %q", asked)
	}
	if err := fstest.TestFS(tree, "app/kustomization.yaml", ".fetched/github.com_argo_flows_v3.7.3/component/kustomization.yaml"); err != nil {
		t.Error(err)
	}
	disk := filesys.MakeFsInMemory()
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(tree, name)
		return errors.Join(err, disk.WriteFile("/r/"+name, content))
	})
	if err != nil {
		t.Fatal(err)
	}
	got := rendered(t, disk)
	if diff := cmp.Diff(byHand(t, files), got); diff != "" || len(got) != 6 {
		t.Errorf("%d objects (-kustomize +ours):\n%s", len(got), diff)
	}
}

// byHand is what kustomize gives where the addresses are paths.
func byHand(t *testing.T, files string) map[string]map[string]any {
	t.Helper()
	disk := filesys.MakeFsInMemory()
	paths := strings.NewReplacer(
		"https://github.com/argo/flows/manifests/crds?ref=v3.7.3", "../argo/manifests/crds",
		"git::https://github.com/argo/flows//component?ref=v3.7.3&timeout=90s", "../argo/component",
		"https://github.com/argo/flows/onward?ref=v3.7.3", "../argo/onward",
		"https://example.org/team/more//deep?ref=0123456789012345678901234567890123456789", "../../more/deep",
		"https://github.com/job/set/releases/download/v0.10.1/manifests.yaml", "jobset.yaml",
		"https://example.org/v1.0.0/patch.json", "patch.json", "https://example.org/v1.0.0/patch.yml", "patch.yml",
	)
	for uri, at := range map[string]string{
		"git::https://github.com/argo/flows?ref=v3.7.3":                                   "argo/",
		"git::https://example.org/team/more?ref=0123456789012345678901234567890123456789": "more/",
		"https://github.com/job/set/releases/download/v0.10.1/manifests.yaml":             "app/jobset.yaml",
		"https://example.org/v1.0.0/patch.yml":                                            "app/patch.yml",
		"https://example.org/v1.0.0/patch.json":                                           "app/patch.json",
	} {
		for name, file := range there[uri] {
			if strings.HasSuffix(at, "/") {
				name = at + name
			} else {
				name = at
			}
			_ = disk.WriteFile("/r/"+name, []byte(paths.Replace(string(file.Data))))
		}
	}
	for name, file := range archive(files) {
		_ = disk.WriteFile("/r/"+name, []byte(paths.Replace(string(file.Data))))
	}
	return rendered(t, disk)
}

// rendered is what kustomize gives of the example.
func rendered(t *testing.T, disk filesys.FileSystem) map[string]map[string]any {
	t.Helper()
	result, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, "/r/example")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]any{}
	for _, r := range result.Resources() {
		raw, err := r.MarshalJSON()
		u := &unstructured.Unstructured{}
		if err := errors.Join(err, u.UnmarshalJSON(raw)); err != nil {
			t.Fatal(err)
		}
		out[u.GetKind()+" "+u.GetName()] = u.Object
	}
	return out
}

// TestAddressesThatAreRefused holds what is wrong with an address, and what its error says.
func TestAddressesThatAreRefused(t *testing.T) {
	many := strings.Builder{}
	for i := range maxFetched + 1 {
		fmt.Fprintf(&many, "- https://example.org/a/n%d?ref=v1\n", i)
	}
	for name, c := range map[string]struct{ list, err string }{
		"no ref":                  {"- https://github.com/argo/flows/manifests/crds", "write ?ref="},
		"a file without version":  {"- https://example.org/main/x.yaml", "write #sha256:"},
		"a file of a branch":      {"- https://raw.githubusercontent.com/o/r/refs/heads/main/x.yaml", "write #sha256:"},
		"ssh":                     {"- ssh://git@github.com/argo/flows?ref=v3.7.3", "over https alone"},
		"scp":                     {"- git@github.com:argo/flows?ref=v3.7.3", "over https alone"},
		"credentials":             {"- https://me:s3cret@github.com/argo/flows?ref=v3.7.3", `"https://github.com/argo/flows?ref=v3.7.3" has credentials`},
		"a secret in the query":   {"- https://example.org/x.yaml?token=s3cret", `"https://example.org/x.yaml" may name`},
		"no repository":           {"- https://github.com/argo?ref=v1", "names no repository"},
		"a folder above":          {"- https://github.com/argo/flows//../x?ref=v3.7.3", "leaves its repository"},
		"a folder that is not":    {"- https://github.com/argo/flows//none?ref=v3.7.3", `names the folder "none"`},
		"out of what was fetched": {"- https://github.com/argo/flows/escapes?ref=v3.7.3", "leaves the repository that was fetched"},
		"a cycle":                 {"- https://github.com/argo/flows/round?ref=v3.7.3", "comes back to itself by way of an address"},
		"gone":                    {"- https://github.com/argo/none?ref=v3.7.3", `app/kustomization.yaml: "https://github.com/argo/none?ref=v3.7.3" cannot be fetched: is gone`},
		"too many":                {many.String(), "more than 32 addresses"},
		"an anchor":               {"- &a https://github.com/argo/flows/onward?ref=v3.7.3", "has an anchor"},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			w := maps.Clone(there)
			for i := range maxFetched {
				w[fmt.Sprintf("git::https://example.org/a/n%d?ref=v1", i)] = archive("-- kustomization.yaml --\n{}")
			}
			out, err := Resolve(t.Context(), w.input(&asked, archive("-- app/kustomization.yaml --\nresources:\n"+c.list), "app", "app"))
			if err != nil {
				t.Fatal(err)
			}
			for i := range 2 {
				err := out.Errors[i]
				if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "s3cret") {
					t.Fatalf("error %v, want %q", err, c.err)
				}
			}
			if len(asked) > maxFetched {
				t.Errorf("%d were fetched", len(asked))
			}
		})
	}
}

// TestAddressesAreCounted holds how far they may lead.
func TestAddressesAreCounted(t *testing.T) {
	w := world{}
	for i := range 6 {
		w[fmt.Sprintf("git::https://example.org/a/n%d?ref=v1", i)] = archive(
			fmt.Sprintf("-- kustomization.yaml --\nresources: ['https://example.org/a/n%d?ref=v1']", i+1))
	}
	var asked []string
	repo := archive("-- kustomization.yaml --\nbases: ['https://example.org/a/n0?ref=v1']")
	_, err := resolved(t, w.input(&asked, repo, "."))
	if err == nil || !strings.Contains(err.Error(), "more than 4 addresses lead to it") || len(asked) != maxHops {
		t.Errorf("%v, and %d were fetched", err, len(asked))
	}
	if _, err = resolved(t, there.input(&asked, repo, ".")); !errors.Is(err, errGone) {
		t.Error("the cause is lost")
	}
}

// TestAddressesThatMayMove holds what Moving allows.
func TestAddressesThatMayMove(t *testing.T) {
	w := world{
		"git::https://github.com/argo/flows":  archive("-- kustomization.yaml --\n{}"),
		"https://example.org/main/x.yaml?a=b": archive("-- file --\n{}"),
	}
	var asked []string
	in := w.input(&asked, archive("-- kustomization.yaml --\nresources: ['github.com/argo/flows', 'https://example.org/main/x.yaml?a=b']"), ".")
	in.Moving = true
	if _, err := resolved(t, in); err != nil || len(asked) != 2 {
		t.Error(err)
	}
}

// TestWhatIsNoAddress holds that kustomizations without addresses stay as they are, whatever is wrong with them.
func TestWhatIsNoAddress(t *testing.T) {
	for _, text := range []string{
		"resources: [../up, /abs, gone.yaml, 7, {path: x}]\npatchesStrategicMerge: ['{kind: x}', \"kind: y\\nurl: https://x\"]", "- list", "{", "",
		"resources: [.]", "configMapGenerator: [{name: x, files: [https://example.org/x]}]",
	} {
		var asked []string
		repo := archive("-- kustomization.yaml --\n" + text)
		tree, err := resolved(t, there.input(&asked, repo, "."))
		if err != nil || len(asked) > 0 {
			t.Errorf("%q: %v, asked for %q", text, err, asked)
		}
		content, err := fs.ReadFile(tree, "kustomization.yaml")
		if err != nil || string(content) != string(repo["kustomization.yaml"].Data) {
			t.Errorf("%q: it is %q now", text, content)
		}
	}
}
