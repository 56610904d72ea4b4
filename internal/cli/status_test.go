package cli

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
)

// configController is a controller whose custom resources are ConfigMaps.
type configController struct{ fakeController }

func (configController) GVK() schema.GroupVersionKind { return configGVK }
func (configController) Resource() string             { return "configmaps" }

// child makes an object as the engine would mark it.
func child(gvk schema.GroupVersionKind, owner *unstructured.Unstructured, name string, content map[string]any) *unstructured.Unstructured {
	u := object(gvk, owner.GetNamespace(), name, content)
	stack := plan.Stack{Controller: "trustyai", GVK: serviceKind, Namespace: owner.GetNamespace(), Name: owner.GetName()}
	u.SetLabels(map[string]string{keeper.ControllerLabel: "trustyai", keeper.StackLabel: stack.Hash()})
	u.SetAnnotations(map[string]string{keeper.OwnerAnnotation: stack.ID()})
	return u
}

func statusObjects() []*unstructured.Unstructured {
	ready := liveService("ready", "1", "2026-01-01T03:04:05Z")
	ready.SetGeneration(2)
	ready.Object["status"] = map[string]any{
		"observedGeneration": int64(2),
		"conditions": []any{map[string]any{
			"type": "Ready", "status": "False", "reason": "Waiting", "message": hostile + strings.Repeat(" long", 40),
		}},
		"inventory": map[string]any{"entries": []any{
			map[string]any{"version": "v1", "kind": "ConfigMap", "namespace": "default", "name": "lost"},
			map[string]any{"version": "v1", "kind": "Secret", "namespace": "default", "name": "ready"},
		}},
	}
	fresh := liveService("fresh", "2", "2026-01-02T03:04:00Z")
	fresh.Object["status"] = nil
	fresh.SetAnnotations(map[string]string{keeper.SuspendAnnotation: "true"})
	deployment := child(deployGVK, ready, "ready", map[string]any{
		"spec":   map[string]any{"replicas": int64(2)},
		"status": map[string]any{"replicas": int64(2), "updatedReplicas": int64(2), "availableReplicas": int64(1), "observedGeneration": int64(1)},
	})
	deployment.SetGeneration(1)
	impostor := child(configGVK, ready, "impostor", nil)
	impostor.SetAnnotations(map[string]string{keeper.OwnerAnnotation: "TrustyAIService.trustyai.opendatahub.io/default/someone"})
	binding := child(bindingGVK, ready, "bound", nil)
	binding.SetNamespace("")
	inventory := object(inventoryKind, "", "i", map[string]any{"spec": map[string]any{
		"owner": map[string]any{"group": serviceKind.Group, "kind": serviceKind.Kind, "namespace": "default", "name": "ready", "uid": "1"},
		"stage": int64(0), "entries": []any{map[string]any{
			"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRoleBinding", "name": "bound",
		}, map[string]any{"group": "gone.io", "version": "v1", "kind": "Gone", "name": "gone"}},
	}})
	return []*unstructured.Unstructured{ready, fresh, deployment, child(secretGVK, ready, "ready", nil), binding, impostor, inventory}
}

var bindingGVK = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"}

var statusKinds = []schema.GroupVersionKind{serviceKind, secretGVK, deployGVK, configGVK, inventoryKind, bindingGVK}

func TestStatusTable(t *testing.T) {
	c, _ := fakeCluster(t, statusKinds, statusObjects()...)
	for _, output := range []string{"table", "wide"} {
		stdout, stderr, err := run(t, NewStatusCommand(environment(fakeController{}, c)), "", "-A", "-o", output)
		if err != nil || stderr != "" {
			t.Fatalf("%v\n%s", err, stderr)
		}
		golden(t, "status-"+output+".golden.txt", stdout)
		for _, r := range stdout {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Errorf("%s prints %U", output, r)
			}
		}
	}
}

func TestStatusJSON(t *testing.T) {
	c, _ := fakeCluster(t, statusKinds, statusObjects()...)
	stdout, _, err := run(t, NewStatusCommand(environment(fakeController{}, c)), "", "-n", "default", "--kind", "tas", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "status.golden.json", stdout)
	var report StatusReport
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || len(report.Stacks) != 2 {
		t.Errorf("%v: %d stacks", err, len(report.Stacks))
	}
	stdout, stderr, err := run(t, NewStatusCommand(environment(fakeController{}, c)), "", "-n", "empty")
	if err != nil || stdout != "" || !strings.Contains(stderr, `MLKeeper manages nothing in namespace "empty"; -A shows all`) {
		t.Errorf("%v %q %q", err, stdout, stderr)
	}
	stdout, _, err = run(t, NewStatusCommand(environment(fakeController{}, c)), "", "-n", "empty", "-o", "json")
	if err != nil || stdout != "{\n  \"stacks\": [],\n  \"warnings\": []\n}\n" {
		t.Errorf("%v %q", err, stdout)
	}
}

func TestStatusReadsNoSecretData(t *testing.T) {
	c, dyn := fakeCluster(t, statusKinds, statusObjects()...)
	if _, _, err := run(t, NewStatusCommand(environment(fakeController{}, c)), "", "-A"); err != nil {
		t.Fatal(err)
	}
	for _, a := range dyn.Actions() {
		if resource := a.GetResource().Resource; resource == "secrets" || a.GetVerb() != "list" && resource != "customresourcedefinitions" {
			t.Errorf("status does %s %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
}

func TestStatusErrors(t *testing.T) {
	none, _ := fakeCluster(t, []schema.GroupVersionKind{deployGVK})
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no definitions": {nil, "make install"},
		"output":         {[]string{"-o", "xml"}, "use one of table, wide, json, yaml, name"},
		"both":           {[]string{"-A", "-n", "x"}, "exclude each other"},
		"kind":           {[]string{"--kind", "Pod"}, "there are TrustyAIService"},
	} {
		_, _, err := run(t, NewStatusCommand(environment(fakeController{}, none)), "", c.args...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	env := environment(fakeController{}, nil)
	env.Connection = &Connection{kubeconfig: "/nonexistent"}
	if _, _, err := run(t, NewStatusCommand(env), ""); err == nil || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Errorf("no kubeconfig: %v", err)
	}
}

// TestStatusWarnsOfADefinitionOfAnotherOperator names the webhook without which a version cannot be read.
func TestStatusWarnsOfADefinitionOfAnotherOperator(t *testing.T) {
	c, dyn := fakeCluster(t, statusKinds, statusObjects()...)
	dyn.PrependReactor("get", "customresourcedefinitions", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"conversion": map[string]any{
			"strategy": "Webhook", "webhook": map[string]any{"clientConfig": map[string]any{
				"service": map[string]any{"namespace": "theirs", "name": "webhook"},
			}},
		}}}}, nil
	})
	_, stderr, err := run(t, NewStatusCommand(environment(fakeController{}, c)), "", "-A")
	want := "warning: the CustomResourceDefinition trustyaiservices.trustyai.opendatahub.io is another operator's"
	if err != nil || !strings.Contains(stderr, want) || !strings.Contains(stderr, "theirs/webhook") {
		t.Errorf("%v\n%s", err, stderr)
	}
}

func TestStatusWarnsOfWhatItMayNotList(t *testing.T) {
	c, dyn := fakeCluster(t, statusKinds, statusObjects()...)
	refuse := func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "any"}, "", errors.New("no"))
	}
	dyn.PrependReactor("list", "deployments", refuse)
	stdout, stderr, err := run(t, NewStatusCommand(environment(fakeController{}, c)), "", "-A")
	if err != nil || !strings.Contains(stderr, "warning: deployments are left out: ") || strings.Contains(stdout, "Deployment") {
		t.Errorf("%v\n%s%s", err, stdout, stderr)
	}
	// Who may not list one kind, such as one that is in no namespace, sees the others.
	env := environment(fakeController{}, c)
	env.Controllers = func() []controller.Any { return []controller.Any{fakeController{}, configController{}} }
	dyn.PrependReactor("list", "configmaps", refuse)
	for _, output := range []string{"table", "name"} {
		stdout, stderr, err := run(t, NewStatusCommand(env), "", "-A", "-o", output)
		if err != nil || !strings.Contains(stderr, "warning: list configmaps: ") || !strings.Contains(strings.ToLower(stdout), "trustyaiservice") {
			t.Errorf("%s: %v\n%s%s", output, err, stdout, stderr)
		}
	}
	// One of those that cannot be seen may not be Ready.
	for _, output := range []string{"table", "json"} {
		if _, stderr, err := run(t, NewStatusCommand(env), "", "-n", "ready", "--exit-code", "-o", output); status(err) != 1 {
			t.Errorf("--exit-code -o %s without the right to list a kind: %v\n%s", output, err, stderr)
		}
	}
	dyn.PrependReactor("list", "trustyaiservices", refuse)
	if _, _, err := run(t, NewStatusCommand(environment(fakeController{}, c)), "", "-A"); err == nil || !strings.Contains(err.Error(), "-n") {
		t.Errorf("%v", err)
	}
}
