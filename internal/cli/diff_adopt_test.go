package cli

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
)

// originals is a custom resource that the original operator has, with an object that is to stay, a workload, and a configuration.
func originals(t *testing.T) (cr, data, workload, config *unstructured.Unstructured) {
	t.Helper()
	cr = liveService("s", "1", "2026-01-01T03:04:05Z")
	cr.SetResourceVersion("7")
	cr.SetFinalizers([]string{"previous.example.com/finalizer", "user.example.com/keep"})
	owned := func(gvk schema.GroupVersionKind, name string, content map[string]any, fields string) *unstructured.Unstructured {
		u := object(gvk, "default", name, content)
		u.SetUID("of-original")
		u.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: cr.GetAPIVersion(), Kind: cr.GetKind(), Name: "s", UID: "1", Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
		}})
		// It made the custom resource the owner, by which it is told from other programs of its name.
		fields = `{"f:metadata":{"f:ownerReferences":{".":{},"k:{\"uid\":\"1\"}":{}}},` + strings.TrimPrefix(fields, "{")
		u.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: "manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: u.GetAPIVersion(), FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(fields),
		}})
		return u
	}
	data = owned(secretGVK, "data", map[string]any{"data": map[string]any{"a": "YQ=="}}, `{"f:data":{"f:a":{}}}`)
	workload = owned(deployGVK, "w", map[string]any{"spec": map[string]any{"replicas": int64(1), "template": map[string]any{"image": "old"}}},
		`{"f:spec":{"f:replicas":{},"f:template":{"f:image":{}}}}`)
	config = owned(configGVK, "c", map[string]any{"data": map[string]any{"a": "1", "original": "1"}}, `{"f:data":{"f:a":{},"f:original":{}}}`)
	return cr, data, workload, config
}

// adopting renders these objects, the workload with its pod template or without.
func adopting(template map[string]any) func(controller.Reader, *v1.TrustyAIService) (plan.Plan, error) {
	return func(_ controller.Reader, cr *v1.TrustyAIService) (plan.Plan, error) {
		spec := map[string]any{"replicas": int64(1)}
		if template != nil {
			spec["template"] = template
		}
		return plan.Plan{Stages: []plan.Stage{{Name: "all", Objects: []plan.Object{
			{Retain: true, Desired: object(secretGVK, cr.Namespace, "data", map[string]any{"data": map[string]any{"a": "YQ=="}})},
			{Partial: template == nil, Desired: object(deployGVK, cr.Namespace, "w", map[string]any{"spec": spec})},
			{Desired: object(configGVK, cr.Namespace, "c", map[string]any{"data": map[string]any{"a": "1"}})},
		}}}}, nil
	}
}

// TestDiffOfAnAdoption needs no MLKeeper in the cluster: its Inventories are not served.
func TestDiffOfAnAdoption(t *testing.T) {
	cr, data, workload, config := originals(t)
	c, dyn := fakeCluster(t, []schema.GroupVersionKind{serviceKind, secretGVK, deployGVK, configGVK}, cr, data, workload, config)
	tried(t, dyn, func(u *unstructured.Unstructured) (runtime.Object, error) { return u, nil })
	env := environment(fakeController{render: adopting(nil)}, c)
	for _, args := range [][]string{{"--adopt"}, {"--adopt", "-A"}, {"tas/s"}} {
		stdout, stderr, err := run(t, NewDiffCommand(env), "", args...)
		if status(err) != exitDifferent {
			t.Fatalf("%v: %v\n%s%s", args, err, stdout, stderr)
		}
		for _, line := range []string{
			"the finalizer of the previous operator is removed: previous.example.com/finalizer\n", "\n-  - previous.example.com/finalizer\n",
			"Secret default/data: it is released, and stays when the custom resource is deleted", "\n-  original: \"1\"\n",
			"\n1 adopted, 1 objects released, no pod restarts\n",
		} {
			if !strings.Contains(stdout, line) {
				t.Errorf("%v does not say %q:\n%s", args, line, stdout)
			}
		}
		if strings.Contains(stdout, "-  - user.example.com/keep") || strings.Contains(stdout, "image: old") {
			t.Errorf("%v: a finalizer of a user, or the pod template, changes:\n%s", args, stdout)
		}
	}
	env = environment(fakeController{render: adopting(map[string]any{"image": "new"})}, c)
	stdout, _, err := run(t, NewDiffCommand(env), "", "--adopt", "-o", "summary")
	if status(err) != exitDifferent || !strings.Contains(stdout, "Deployment default/w: its pods restart") || !strings.Contains(stdout, "the pods of 1 workloads restart") {
		t.Errorf("%v\n%s", err, stdout)
	}
	stdout, _, err = run(t, NewDiffCommand(env), "", "--adopt", "-o", "json")
	var report DiffReport
	if status(err) != exitDifferent || json.Unmarshal([]byte(stdout), &report) != nil {
		t.Fatalf("%v\n%s", err, stdout)
	}
	for _, o := range report.Objects {
		if o.Released != (o.Kind == "Secret") || o.Restarts != (o.Kind == "Deployment") || o.Kind == "TrustyAIService" && o.Reason != reasonAdopted {
			t.Errorf("%+v", o)
		}
	}
}

func TestDiffAdoptsWhatMLKeeperDoesNotManageYet(t *testing.T) {
	managed := liveService("managed", "2", "2026-01-01T03:04:05Z")
	managed.SetResourceVersion("7")
	managed.Object["status"] = map[string]any{"inventory": map[string]any{"entries": []any{
		map[string]any{"version": "v1", "kind": "ConfigMap", "namespace": "default", "name": "c", "uid": "of-c"},
	}}}
	fresh := liveService("fresh", "3", "2026-01-01T03:04:05Z")
	fresh.SetResourceVersion("7")
	c, dyn := fakeCluster(t, statusKinds, managed)
	tried(t, dyn, func(u *unstructured.Unstructured) (runtime.Object, error) { return u, nil })
	env := environment(fakeController{render: adopting(map[string]any{"image": "new"})}, c)
	stdout, _, err := run(t, NewDiffCommand(env), "", "--adopt")
	if err != nil || !strings.Contains(stdout, "there is nothing to adopt") {
		t.Errorf("%v\n%s", err, stdout)
	}
	c, dyn = fakeCluster(t, statusKinds, managed, fresh)
	tried(t, dyn, func(u *unstructured.Unstructured) (runtime.Object, error) { return u, nil })
	stdout, _, err = run(t, NewDiffCommand(environment(fakeController{render: adopting(map[string]any{"image": "new"})}, c)), "", "--adopt")
	if status(err) != exitDifferent || !strings.Contains(stdout, "default/fresh") || strings.Contains(stdout, "default/managed") || !strings.Contains(stdout, "1 adopted") {
		t.Errorf("%v\n%s", err, stdout)
	}
	for _, args := range [][]string{{"--adopt", "tas/s"}, {"--adopt", "-f", "-"}, {"-A", "tas/s"}, {"-A"}} {
		if _, _, err := run(t, NewDiffCommand(env), "", args...); status(err) != exitFailed {
			t.Errorf("%v: %v", args, err)
		}
	}
}
