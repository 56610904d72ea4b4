package install

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"mlkeeper.dev/test/cluster"
)

var update = flag.Bool("update", false, "write the golden files")

// controllers are the components of config/components that add a controller, with its name.
var controllers = map[string]string{
	"trustyai": "trustyai", "tfserving": "tfserving", "kubeflow": "kubeflow", "seldon": "seldon", "participant": "kserve",
}

// build renders a folder of config/, or config/operator with components.
func build(t *testing.T, folder string, components ...string) []*unstructured.Unstructured {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "config", folder)
	if len(components) > 0 {
		path = t.TempDir()
		up, err := filepath.Rel(path, filepath.Join(root, "config"))
		if err != nil {
			t.Fatal(err)
		}
		text := "namespace: mlkeeper-system\nresources: [" + up + "/" + folder + "]\ncomponents:\n"
		for _, c := range components {
			text += "  - " + up + "/components/" + c + "\n"
		}
		if err := os.WriteFile(filepath.Join(path, "kustomization.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), path)
	if err != nil {
		t.Fatalf("%s %v: %v", folder, components, err)
	}
	text, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := cluster.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// convert reads an object as its Go type.
func convert[T any](t *testing.T, u *unstructured.Unstructured) *T {
	t.Helper()
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// roles are the Roles and ClusterRoles among objects, by namespace and name. As the control plane does, it fills those that aggregate.
func roles(t *testing.T, objects []*unstructured.Unstructured) map[string]*rbacv1.ClusterRole {
	t.Helper()
	out := map[string]*rbacv1.ClusterRole{}
	for _, u := range objects {
		if kind := u.GetKind(); kind == "Role" || kind == "ClusterRole" {
			out[u.GetNamespace()+"/"+u.GetName()] = convert[rbacv1.ClusterRole](t, u)
		}
	}
	for _, role := range out {
		if role.AggregationRule == nil {
			continue
		}
		for _, selector := range role.AggregationRule.ClusterRoleSelectors {
			for _, name := range slices.Sorted(maps.Keys(out)) {
				if labels.SelectorFromSet(selector.MatchLabels).Matches(labels.Set(out[name].Labels)) {
					role.Rules = append(role.Rules, out[name].Rules...)
				}
			}
		}
	}
	return out
}

// rights are what the operator's ServiceAccount may do, as `kubectl auth can-i --list` has it: the verbs by namespace and resource.
func rights(t *testing.T, objects []*unstructured.Unstructured) map[string][]string {
	t.Helper()
	known, out := roles(t, objects), map[string][]string{}
	for _, u := range objects {
		if kind := u.GetKind(); kind != "RoleBinding" && kind != "ClusterRoleBinding" {
			continue
		}
		binding := convert[rbacv1.ClusterRoleBinding](t, u)
		if len(binding.Subjects) != 1 || binding.Subjects[0].Name != manager || binding.Subjects[0].Namespace != namespace {
			t.Errorf("%s binds %v", u.GetName(), binding.Subjects)
		}
		in := ""
		if binding.RoleRef.Kind == "Role" {
			in = u.GetNamespace()
		}
		role := known[in+"/"+binding.RoleRef.Name]
		if role == nil {
			t.Fatalf("%s binds %s, which is not there", u.GetName(), binding.RoleRef.Name)
		}
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					name := strings.TrimSuffix(resource+"."+group, ".")
					if len(rule.ResourceNames) > 0 {
						name += " " + strings.Join(rule.ResourceNames, ",")
					}
					if in != "" {
						name = "in " + in + ": " + name
					}
					out[name] = append(out[name], rule.Verbs...)
				}
			}
		}
	}
	for name, verbs := range out {
		slices.Sort(verbs)
		out[name] = slices.Compact(verbs)
	}
	return out
}

// list prints rights, one resource a line, and how many verbs these are in all.
func list(rights map[string][]string) string {
	var out strings.Builder
	count := 0
	for _, name := range slices.Sorted(maps.Keys(rights)) {
		fmt.Fprintf(&out, "%s: %s\n", name, strings.Join(rights[name], " "))
		count += len(rights[name])
	}
	return fmt.Sprintf("%d resources, %d verbs\n%s", len(rights), count, out.String())
}

// TestTrustyAIAloneHasFewRights pins what the operator may do where only TrustyAI is used, which config/trustyai installs.
func TestTrustyAIAloneHasFewRights(t *testing.T) {
	got := list(rights(t, build(t, "trustyai")))
	path := filepath.Join("testdata", "trustyai-alone.txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the rights differ from %s, run go test ./test/install -run TestTrustyAIAlone -update and look at each:\n%s", path, got)
	}
	for _, folder := range []string{"trustyai", "default"} {
		head, _, _ := strings.Cut(list(rights(t, build(t, folder))), "\n")
		t.Logf("config/%s: %s", folder, head)
	}
}

// TestRightsFollowTheControllers renders each controller alone, and all but each: the manager runs those and no others, it is bound to
// their roles, and of the others there is no right, no role of users and no definition.
func TestRightsFollowTheControllers(t *testing.T) {
	names := slices.Sorted(maps.Keys(controllers))
	var sets [][]string
	for i, name := range names {
		sets = append(sets, []string{name}, slices.Delete(slices.Clone(names), i, i+1))
	}
	groups := map[string]string{
		"trustyai": "trustyai.opendatahub.io", "tfserving": "servapi.dev-state.com", "kubeflow": "kfdef.apps.kubeflow.org",
		"seldon": "operator.seldon.io", "participant": "compositionelements.keeper.mlkeeper.dev",
	}
	for _, on := range sets {
		flags := []string{"--controllers="}
		for _, name := range on {
			flags = append(flags, "--controllers="+controllers[name])
		}
		objects := build(t, "operator", on...)
		// The policies refuse by the names of the groups, whatever controllers are on.
		text, err := json.Marshal(slices.DeleteFunc(slices.Clone(objects), func(u *unstructured.Unstructured) bool {
			return u.GetKind() == "ValidatingAdmissionPolicy"
		}))
		if err != nil {
			t.Fatal(err)
		}
		all, bound := string(text), rights(t, objects)
		for _, name := range names {
			role, isOn := controllers[name], slices.Contains(on, name)
			if has := strings.Contains(all, `"name":"mlkeeper-`+role+`"`); has != isOn {
				t.Errorf("with %v: the role of %s is there: %t", on, role, has)
			}
			if mentioned := strings.Contains(all, groups[name]); mentioned != isOn {
				t.Errorf("with %v: %s is mentioned: %t", on, groups[name], mentioned)
			}
		}
		if args := managerArgs(t, objects); !slices.Equal(args, flags) {
			t.Errorf("with %v it runs with %v", on, args)
		}
		for name, verbs := range bound {
			if strings.Contains(name, "*") || slices.Contains(verbs, "*") || slices.Contains(verbs, "impersonate") {
				t.Errorf("with %v the operator may %v %s", on, verbs, name)
			}
		}
	}
}

// managerArgs are the flags of the manager that name controllers.
func managerArgs(t *testing.T, objects []*unstructured.Unstructured) []string {
	t.Helper()
	for _, u := range objects {
		if u.GetKind() != "Deployment" {
			continue
		}
		containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
		container, _ := containers[0].(map[string]any)
		args, _, _ := unstructured.NestedStringSlice(container, "args")
		return slices.DeleteFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "--controllers") })
	}
	t.Fatal("there is no Deployment")
	return nil
}

// TestNoRoleHasAWildcard renders everything that config/ has but the binding to cluster-admin.
func TestNoRoleHasAWildcard(t *testing.T) {
	components := append(allComponents(t), slices.Sorted(maps.Keys(controllers))...)
	slices.Sort(components)
	components = slices.DeleteFunc(slices.Compact(components), func(name string) bool { return name == "trusted" })
	all := roles(t, build(t, "operator", components...))
	if len(all) < 20 {
		t.Fatalf("only %d roles", len(all))
	}
	for name, role := range all {
		for _, rule := range role.Rules {
			if strings.Contains(strings.Join(slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs), " "), "*") {
				t.Errorf("%s has %+v", name, rule)
			}
		}
	}
}

// TestEveryNamespaceGrantsWhatOneIsGranted: the component has in all namespaces what `mlkeeper rbac --namespace` prints for one, and gives
// it only to an operator with a controller that acts as ServiceAccounts.
func TestEveryNamespaceGrantsWhatOneIsGranted(t *testing.T) {
	read := []string{"get", "list", "watch"}
	want := map[string][]string{
		"serviceaccounts": {"get", "impersonate", "list", "watch"}, "secrets": read, "configmaps": read, "services": read,
	}
	for _, controller := range []string{"kubeflow", "seldon"} {
		without, with := rights(t, build(t, "operator", controller)), rights(t, build(t, "operator", controller, "every-namespace"))
		for name, verbs := range want {
			if !slices.Equal(with[name], verbs) || len(without[name]) > 0 {
				t.Errorf("%s: the operator may %v %s, without the component %v; want %v", controller, with[name], name, without[name], verbs)
			}
		}
		if len(with) != len(without)+len(want) {
			t.Errorf("%s: the component grants more than %v:\n%s", controller, want, list(with))
		}
	}
	if tfserving := list(rights(t, build(t, "operator", "tfserving", "every-namespace"))); strings.Contains(tfserving, "impersonate") {
		t.Errorf("the component has an effect without such a controller:\n%s", tfserving)
	}
}
