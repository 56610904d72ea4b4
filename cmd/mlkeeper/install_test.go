package main

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// documents are the objects of a stream of YAML, by their kinds and names.
func documents(t *testing.T, text []byte) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		u := unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &u.Object); err != nil {
			t.Fatal(err)
		}
		if u.Object != nil {
			out[u.GetKind()+" "+u.GetNamespace()+"/"+u.GetName()] = u.Object
		}
	}
	return out
}

// TestInstallPrintsWhatTheFilesInstall compares with config/install.yaml, which kustomize builds from config/default.
func TestInstallPrintsWhatTheFilesInstall(t *testing.T) {
	file, err := os.ReadFile("../../config/install.yaml")
	if err != nil {
		t.Fatal(err)
	}
	stdout, _, err := execute(t, "install", "--export", "--image", "registry.invalid/mlkeeper:dev")
	if err != nil {
		t.Fatal(err)
	}
	got, want := documents(t, []byte(stdout)), documents(t, file)
	for name, object := range want {
		if !reflect.DeepEqual(got[name], object) {
			t.Errorf("%s is not as in config/install.yaml", name)
		}
	}
	for name := range got {
		if want[name] == nil {
			t.Errorf("config/install.yaml has no %s", name)
		}
	}
	if first, _, _ := strings.Cut(stdout, "metadata"); !strings.Contains(first, "kind: Namespace") {
		t.Errorf("it begins with %s", first)
	}
}

func TestInstallPrintsWhatIsChosen(t *testing.T) {
	stdout, _, err := execute(t, "install", "--export", "--image", "registry.example.com/m:v1", "-n", "elsewhere", "--controllers", "trustyai", "--components", "network-policy,console")
	if err != nil {
		t.Fatal(err)
	}
	all := documents(t, []byte(stdout))
	if all["NetworkPolicy elsewhere/mlkeeper-controller-manager"] == nil || all["CustomResourceDefinition /kfdefs.kfdef.apps.kubeflow.org"] != nil {
		t.Error("other controllers or components than those that are chosen")
	}
	for _, name := range []string{"Deployment elsewhere/mlkeeper-controller-manager", "Deployment elsewhere/mlkeeper-console"} {
		text, err := yaml.Marshal(all[name])
		if err != nil || !strings.Contains(string(text), "image: registry.example.com/m:v1") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	for flag, args := range map[string][]string{
		"--export": {"--image", "a:b"}, "--image": {"--export"}, "--controllers": {"--export", "--image", "a:b", "--controllers", "x"},
		"--components": {"--export", "--image", "a:b", "--components", "../../etc"}, "--namespace": {"--export", "--image", "a:b", "-n", "A b"},
		"participant": {"--export", "--image", "a:b", "--components", "participant"},
	} {
		if stdout, _, err := execute(t, append([]string{"install"}, args...)...); err == nil || !strings.Contains(err.Error(), flag) || stdout != "" {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

// TestInstallRefusesWhatMakeDeployRefuses: hack/overlay.sh, the chart and the manager refuse the same.
func TestInstallRefusesWhatMakeDeployRefuses(t *testing.T) {
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"--controllers", ""}, "--controllers names none: the manager would not start"},
		{[]string{"--controllers=", "--components", "network-policy"}, "--controllers names none"},
		{[]string{"--controllers", "trustyai,"}, `--controllers ""`},
		{[]string{"--controllers", "kserve"}, `--controllers "kserve"`},
		{[]string{"--controllers", "tfserving", "--components", "trusted"}, "--components trusted: it is for KfDefs and SeldonOperators, whose controllers are off"},
		{[]string{"--components", "kubeflow"}, `--components "kubeflow"`},
		{[]string{"--image", ""}, `--image ""`},
		{[]string{"--namespace", ""}, `--namespace ""`},
	} {
		stdout, _, err := execute(t, append([]string{"install", "--export", "--image", "a:b"}, row.args...)...)
		if err == nil || !strings.Contains(err.Error(), row.want) || stdout != "" {
			t.Errorf("%v: %v does not say %q", row.args, err, row.want)
		}
	}
	for _, row := range [][2][]string{
		{{"--controllers", "kubeflow,kubeflow"}, {"--controllers", "kubeflow"}},
		{{"--controllers", "seldon", "--components", "trusted,trusted"}, {"--controllers", "seldon", "--components", "trusted"}},
	} {
		twice, _, err := execute(t, append([]string{"install", "--export", "--image", "a:b"}, row[0]...)...)
		if err != nil {
			t.Errorf("%v: %v", row[0], err)
		}
		if once, _, err := execute(t, append([]string{"install", "--export", "--image", "a:b"}, row[1]...)...); err != nil || once != twice {
			t.Errorf("%v prints something else than %v: %v", row[0], row[1], err)
		}
	}
}
