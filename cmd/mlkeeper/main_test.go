package main

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"mlkeeper.dev/config/crd"
)

var update = flag.Bool("update", false, "write the golden files")

func execute(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	root := newRootCommand()
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

// TestRenderSeeds renders the manifests of the seeds unchanged.
func TestRenderSeeds(t *testing.T) {
	for _, name := range []string{"trustyai-service", "trustyai-service-monitoring"} {
		stdout, stderr, err := execute(t, "render", "-n", "models", "-f", filepath.Join("../../test/testdata/seeds", name+".yaml"))
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, stderr)
		}
		path := filepath.Join("testdata", name+".golden.yaml")
		if *update {
			if err := os.MkdirAll("testdata", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(stdout), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), stdout); diff != "" {
			t.Errorf("%s differs, run go test ./cmd/mlkeeper -update (-want +got):\n%s", path, diff)
		}
	}
}

// TestEveryControllerHasADefinition keeps render and status complete when a controller is added.
func TestEveryControllerHasADefinition(t *testing.T) {
	known := map[schema.GroupVersionKind]bool{}
	files, err := fs.Glob(crd.Definitions, "*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		raw, err := crd.Definitions.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(raw, &d); err != nil {
			t.Fatal(err)
		}
		for i := range d.Spec.Versions {
			v := &d.Spec.Versions[i]
			known[schema.GroupVersionKind{Group: d.Spec.Group, Version: v.Name, Kind: d.Spec.Names.Kind}] = v.Storage
		}
	}
	seen := map[string]bool{}
	for i, r := range controllers(settings{}) {
		if !known[r.GVK()] {
			t.Errorf("controller %s: %s is no stored version of a definition in config/crd", r.Name(), r.GVK())
		}
		if seen[r.Name()] || r.Name() != registrations()[i].name {
			t.Errorf("controller %q is registered twice, or under another name", r.Name())
		}
		seen[r.Name()] = true
	}
}

// TestRolesAreBound checks that each generated role has the name that config/rbac binds.
func TestRolesAreBound(t *testing.T) {
	for _, controller := range append(controllerNames(), "engine") {
		flags := []string{"rbac", "--controller", controller}
		if controller == "engine" {
			flags = []string{"rbac", "--engine"}
		}
		stdout, _, err := execute(t, flags...)
		if err != nil {
			t.Fatal(err)
		}
		var role rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict([]byte(stdout), &role); err != nil {
			t.Fatal(err)
		}
		bindings, err := os.ReadFile("../../config/rbac/" + controller + "/binding.yaml")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(bindings), "  name: "+role.Name+"\n") {
			t.Errorf("config/rbac/%s/binding.yaml does not bind %s", controller, role.Name)
		}
	}
}

// TestTrustyAIRole checks the rights that the controller needs beyond its children and wires.
func TestTrustyAIRole(t *testing.T) {
	stdout, _, err := execute(t, "rbac", "--controller", "trustyai")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"resources: [persistentvolumes]\n    verbs: [get, list, watch]\n",
		"resources: [clusterroles]\n    resourceNames: [mlkeeper-trustyai-proxy]\n    verbs: [bind]\n",
		"resources: [inferenceservices]\n    verbs: [get, list, watch, update]\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the role lacks %q:\n%s", want, stdout)
		}
	}
}

func TestVersion(t *testing.T) {
	stdout, _, err := execute(t, "version")
	if err != nil || strings.TrimSpace(stdout) == "" {
		t.Errorf("%q, %v", stdout, err)
	}
}

// TestTheInstalledManagerElectsALeader shows that two managers never keep the same custom resources (defect 19 of the
// Tfserv tutorial): the manifest elects, and grants what that needs.
func TestTheInstalledManagerElectsALeader(t *testing.T) {
	raw, err := os.ReadFile("../../config/install.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var elects, leases bool
	for _, text := range strings.Split(string(raw), "\n---\n") {
		var object struct {
			Kind string
			Spec struct {
				Template struct {
					Spec struct{ Containers []struct{ Args []string } }
				}
			}
			Rules []rbacv1.PolicyRule
		}
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			continue // Not every document has these types in these places.
		}
		for _, c := range object.Spec.Template.Spec.Containers {
			elects = elects || object.Kind == "Deployment" && slices.Contains(c.Args, "--leader-elect")
		}
		for _, rule := range object.Rules {
			leases = leases || object.Kind == "Role" && slices.Contains(rule.Resources, "leases")
		}
	}
	if !elects || !leases {
		t.Errorf("the manager elects: %v; it may use leases: %v", elects, leases)
	}
}

// TestAsAPluginOfKubectl calls the binary as kubectl does.
func TestAsAPluginOfKubectl(t *testing.T) {
	for file, want := range map[string]string{
		"/usr/bin/kubectl-mlkeeper": "kubectl mlkeeper tree", "kubectl-mlkeeper.exe": "kubectl mlkeeper tree", "bin/mlkeeper": "mlkeeper tree",
	} {
		root := newRootCommand()
		callAs(root, file)
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs([]string{"tree", "--help"})
		if err := root.Execute(); err != nil || !strings.Contains(out.String(), "Usage:\n  "+want) {
			t.Errorf("%s: %v\n%s", file, err, out.String())
		}
		if strings.Contains(out.String(), "--as-group") {
			t.Errorf("%s: the help has flags that are seldom needed:\n%s", file, out.String())
		}
	}
	stdout, _, err := execute(t, "options")
	if err != nil || !strings.Contains(stdout, "--as-group") || !strings.Contains(stdout, "--kubeconfig") || !strings.Contains(stdout, "--request-timeout") {
		t.Errorf("options: %v\n%s", err, stdout)
	}
}
