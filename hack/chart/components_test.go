package main

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/types"
)

// with builds the operator with some components, in this order, and images replaced.
func with(t *testing.T, components []string, images ...types.Image) []map[string]any {
	t.Helper()
	objects, err := build(root, types.Kustomization{
		Namespace: namespace, Resources: below("", []string{"operator"}), Components: below("components/", components), Images: images,
	})
	if err != nil {
		t.Fatalf("%v: %v", components, err)
	}
	return objects
}

// allComponents are the folders of config/components.
func allComponents(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root, "config", "components"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, entry := range entries {
		out = append(out, entry.Name())
	}
	return out
}

// controllers are the components that no other one changes anything of: each adds its definitions, its rights and one flag.
var controllers = []string{"kubeflow", "seldon", "tfserving", "trustyai"}

// TestComponentsCombineInAnyOrder builds every two of the components that are no controllers, all of these with each controller, and all components:
// the order changes nothing, and nothing of a component is lost beside another. What three components changed of one another, two of them would.
func TestComponentsCombineInAnyOrder(t *testing.T) {
	all := allComponents(t)
	parts := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(controllers, name) })
	if len(all) != len(parts)+len(controllers) || len(parts) < 7 {
		t.Fatalf("the components are %v", all)
	}
	var sets [][]string
	for i, one := range parts {
		for _, other := range parts[:i] {
			sets = append(sets, []string{other, one})
		}
	}
	for _, controller := range controllers {
		sets = append(sets, append([]string{controller}, parts...))
	}
	alone := map[string]map[string]map[string]any{}
	for _, name := range append(all, "") {
		alone[name] = normalized(t, with(t, slices.DeleteFunc([]string{name}, func(s string) bool { return s == "" })))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, set := range append(sets, all, all, all) {
		built := normalized(t, with(t, set))
		complete(t, set, built, alone)
		other := slices.Clone(set)
		slices.Reverse(other)
		if len(set) > 2 {
			random.Shuffle(len(other), func(i, j int) { other[i], other[j] = other[j], other[i] })
		}
		if diff := differences(t, built, normalized(t, with(t, other))); len(diff) > 0 {
			t.Errorf("%v and %v differ in %v", set, other, diff)
		}
	}
}

// complete: a set has the objects of each of its components, and their flags.
func complete(t *testing.T, set []string, built map[string]map[string]any, alone map[string]map[string]map[string]any) {
	t.Helper()
	const deployment = "Deployment " + namespace + "/mlkeeper-controller-manager"
	args := text(t, container(built[deployment])["args"])
	for _, name := range set {
		for key := range alone[name] {
			if built[key] == nil {
				t.Errorf("%v lacks %s of %s", set, key, name)
			}
		}
		for _, arg := range container(alone[name][deployment])["args"].([]any) {
			if !strings.Contains(args, text(t, arg)) {
				t.Errorf("%v lacks the flag %v of %s", set, arg, name)
			}
		}
	}
	if !slices.Contains(set, "trusted") && len(built) > 0 && differs(t, built, alone[""], "ValidatingAdmissionPolicyBinding") {
		t.Errorf("%v changes what the policies do", set)
	}
}

// differs compares the objects of a kind.
func differs(t *testing.T, one, other map[string]map[string]any, kind string) bool {
	t.Helper()
	return slices.ContainsFunc(differences(t, one, other), func(key string) bool { return strings.HasPrefix(key, kind+" ") })
}

func container(deployment map[string]any) map[string]any {
	return at(deployment, "spec", "template", "spec", "containers").([]any)[0].(map[string]any)
}

// normalized returns objects by name. What the manager reads in any order is sorted: flags, which it adds up, volumes and where they are mounted.
func normalized(t *testing.T, objects []map[string]any) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for _, object := range objects {
		if object["kind"] == "Deployment" {
			spec := at(object, "spec", "template", "spec").(map[string]any)
			for _, list := range []any{container(object)["args"], container(object)["volumeMounts"], spec["volumes"]} {
				slices.SortFunc(list.([]any), func(a, b any) int { return cmp.Compare(text(t, a), text(t, b)) })
			}
		}
		namespace, _ := at(object, "metadata", "namespace").(string)
		key := object["kind"].(string) + " " + namespace + "/" + at(object, "metadata", "name").(string)
		if out[key] != nil {
			t.Errorf("there are two of %s", key)
		}
		out[key] = object
	}
	return out
}

// differences are the keys of what differs.
func differences(t *testing.T, one, other map[string]map[string]any) []string {
	t.Helper()
	keys := maps.Clone(one)
	maps.Copy(keys, other)
	var out []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if text(t, one[key]) != text(t, other[key]) {
			out = append(out, key)
		}
	}
	return out
}

// TestTheImageIsSetInOnePlace: images of a kustomization replaces the image of each Deployment, which is the same, whatever components are on.
func TestTheImageIsSetInOnePlace(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for want, image := range map[string]types.Image{
		"registry.example.com/mlkeeper:v0.1.0":    {NewName: "registry.example.com/mlkeeper", NewTag: "v0.1.0"},
		"registry.example.com/mlkeeper@" + digest: {NewName: "registry.example.com/mlkeeper", Digest: digest},
	} {
		image.Name = "registry.invalid/mlkeeper"
		found, deployments := 0, 0
		for _, object := range with(t, allComponents(t), image) {
			rendered := text(t, object)
			if strings.Contains(rendered, "registry.invalid") {
				t.Errorf("%s is left as it was", at(object, "metadata", "name"))
			}
			if found += strings.Count(rendered, `"`+want+`"`); object["kind"] == "Deployment" {
				deployments++
			}
		}
		if found == 0 || found != deployments {
			t.Errorf("%s is there %d times in %d Deployments", want, found, deployments)
		}
	}
}
