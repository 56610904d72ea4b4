//go:build realkubeflow

package kubeflow

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/manifest/convert"
	"mlkeeper.dev/internal/rendering"
)

// releases are those of kubeflow/manifests with KfDefs, each with a file of its own. Of a checkout the first counts whose file is there:
// a later release has the KfDefs of the earlier ones, too.
var releases = [][2]string{
	{"v1.3.0", "distributions/kfdef/kfctl_aws.v1.3.0.yaml"},
	{"v1.2.0", "kfdef/kfctl_aws.v1.2.0.yaml"},
	{"v1.1-branch", "kfdef/kfctl_aws.v1.1.0.yaml"},
	{"v1.0.2", "kfdef/kfctl_gcp_iap.v1.0.2.yaml"},
	{"v1.1.0", "kfdef/kfctl_aws.v1.0.2.yaml"},
	{"v1.0.1", "kfdef/kfctl_aws.v1.0.1.yaml"},
	{"v1.0.0", "kfdef/kfctl_aws.v1.0.0.yaml"},
	{"v0.7-branch", "kfdef/kfctl_aws.0.7.1.yaml"},
	{"v0.7.0-rc.2", "kfdef/kfctl_existing_arrikto.yaml"},
}

// releaseOf is what the checkout in a folder is. v1.3.1 has the KfDefs of v1.3.0, but lacks a folder.
func releaseOf(t *testing.T, root string) string {
	t.Helper()
	for _, release := range releases {
		if !exists(root, release[1]) {
			continue
		}
		if release[0] == "v1.3.0" && !exists(root, "common/cert-manager/cert-manager-crds") {
			return "v1.3.1"
		}
		return release[0]
	}
	t.Fatalf("%q has no KfDefs of kubeflow/manifests: run make test-kubeflow", root)
	return ""
}

func exists(root, name string) bool {
	_, err := os.Stat(filepath.Join(root, name))
	return err == nil
}

// original is what kfctl 1.2 makes of the applications of a KfDef, each for itself.
type original struct {
	file string
	// objects is how many objects they have, and digest that of their identities: identities.
	objects int
	digest  string
	// failed are the applications that MLKeeper names as failed, as they are called.
	failed string
}

// TestKfctlRenderedAsMany renders the KfDefs in a checkout of kubeflow/manifests, and compares their objects with what kfctl made of their
// applications. The lines of testdata/kfdefs.txt tell of each release, and say where they are from.
func TestKfctlRenderedAsMany(t *testing.T) {
	root := os.Getenv("MANIFESTS")
	release := releaseOf(t, root)
	folder := filepath.Join(root, "kfdef")
	if exists(root, "distributions/kfdef") {
		folder = filepath.Join(root, "distributions", "kfdef")
	}
	all := originals(t, release)
	if len(all) == 0 {
		t.Fatalf("testdata/kfdefs.txt has no line of %s", release)
	}
	for _, want := range all {
		t.Run(want.file, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join(folder, want.file))
			if err != nil {
				t.Fatal(err)
			}
			cr := &kubeflowv1.KfDef{}
			if err := yaml.Unmarshal(raw, cr); err != nil {
				t.Fatal(err)
			}
			cr.Name, cr.Namespace, cr.UID = "kubeflow", "kubeflow", "uid"
			content := renderFolder(t, cr, os.DirFS(root))
			if content.Rendering != renderingKfctl {
				t.Errorf("the rendering is %s, since %s", content.Rendering, content.Why)
			}
			if got := outcomeOf(t, want.file, content); got != want {
				t.Errorf("rendered %+v, and kfctl %+v", got, want)
			}
		})
	}
}

// outcomeOf is what became of the applications of a KfDef.
func outcomeOf(t *testing.T, file string, content Content) original {
	t.Helper()
	var objects []*unstructured.Unstructured
	var failed []string
	for _, a := range content.Applications {
		objects = append(objects, a.Objects...)
		if a.Error == "" {
			continue
		}
		failed = append(failed, strconv.Quote(a.Name))
		if !slices.ContainsFunc([]string{"has no folder", "is not in the repository", "has no name"}, func(why string) bool {
			return strings.Contains(a.Error, why)
		}) {
			t.Errorf("%s: %s", a.Name, a.Error)
		}
	}
	return original{file: file, objects: len(objects), digest: identities(objects), failed: strings.Join(failed, ",")}
}

// generated is the end of the name of a ConfigMap or a Secret that kustomize derives from its content, in another way than kustomize v3.2.0.
var generated = regexp.MustCompile(`-[0-9a-z]{10}$`)

// identities is the start of a digest of what the objects are: kind, group, namespace and name of each, sorted.
func identities(objects []*unstructured.Unstructured) string {
	var lines []string
	for _, o := range objects {
		name := o.GetName()
		if kind := o.GetKind(); kind == "ConfigMap" || kind == "Secret" {
			name = generated.ReplaceAllString(name, "")
		}
		lines = append(lines, fmt.Sprintf("%s/%s/%s/%s\n", o.GetKind(), o.GroupVersionKind().Group, o.GetNamespace(), name))
	}
	slices.Sort(lines)
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(lines, ""))))[:16]
}

// originals are the lines of testdata/kfdefs.txt of a release.
func originals(t *testing.T, release string) (out []original) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "kfdefs.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != release {
			continue
		}
		if len(fields) < 4 {
			t.Fatalf("%q is no line of a KfDef", line)
		}
		objects, err := strconv.Atoi(fields[2])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, original{file: fields[1], objects: objects, digest: fields[3], failed: strings.Join(fields[4:], " ")})
	}
	return out
}

// renderFolder renders a KfDef, all of whose repositories are one folder, for a cluster that serves everything.
func renderFolder(t *testing.T, cr *kubeflowv1.KfDef, folder fs.FS) Content {
	t.Helper()
	run := rendering.Run[Content]{
		Converter: convert.Converter{Served: func(schema.GroupVersionKind) bool { return true }}, Result: &Result{Inputs: "inputs"},
	}
	for i, r := range cr.Spec.Repos {
		run.Trees = append(run.Trees, folder)
		run.Result.Sources = append(run.Result.Sources, rendering.Revision{Name: r.Name, Digest: fmt.Sprint(i)})
	}
	renderRun(t, cr, nil, run)
	return run.Result.Content
}
