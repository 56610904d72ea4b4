package cli

import (
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
)

// handedBack is a custom resource with an Inventory: a workload, a claim, a binding, and a configuration that is another's by now.
func handedBack(t *testing.T, others ...*unstructured.Unstructured) (*cluster, *dynamicfake.FakeDynamicClient) {
	t.Helper()
	cr := liveService("s", "1", "2026-01-01T03:04:05Z")
	stack := stackOf(fakeController{}, cr)
	child := func(gvk schema.GroupVersionKind, namespace, name string, content map[string]any, owners ...metav1.OwnerReference) *unstructured.Unstructured {
		u := object(gvk, namespace, name, content)
		u.SetUID("of-child")
		u.SetLabels(map[string]string{"app": "s", keeper.ControllerLabel: "trustyai", keeper.StackLabel: stack.Hash()})
		u.SetAnnotations(map[string]string{keeper.OwnerAnnotation: stack.ID(), keeper.AppliedHashAnnotation: "x"})
		u.SetOwnerReferences(owners)
		return u
	}
	byInventory := metav1.OwnerReference{APIVersion: keeper.GroupVersion.String(), Kind: "Inventory", Name: "i", UID: "of-i", Controller: ptr.To(true)}
	workload := child(deployGVK, "default", "w", nil, byInventory)
	claim := child(claimGVK, "default", "data", nil)
	binding := child(bindingGVK, "", "s-default-proxy", map[string]any{"roleRef": map[string]any{"kind": "ClusterRole", "name": "mlkeeper-trustyai-proxy"}}, byInventory)
	another := object(configGVK, "default", "c", nil)
	var entries []any
	for _, u := range []*unstructured.Unstructured{workload, claim, binding, another} {
		entries = append(entries, map[string]any{
			"group": u.GroupVersionKind().Group, "version": u.GroupVersionKind().Version, "kind": u.GetKind(), "namespace": u.GetNamespace(), "name": u.GetName(),
		})
	}
	inventory := object(inventoryKind, "", "i", map[string]any{"spec": map[string]any{
		"owner": map[string]any{"group": serviceKind.Group, "kind": serviceKind.Kind, "namespace": "default", "name": "s", "uid": "1"}, "entries": entries,
	}})
	inventory.SetUID("of-i")
	inventory.SetLabels(map[string]string{keeper.StackLabel: stack.Hash()})
	return fakeCluster(t, append(slices.Clone(statusKinds), claimGVK, podKind, kfDefKind), append([]*unstructured.Unstructured{cr, workload, claim, binding, another, inventory}, others...)...)
}

// read is an object of a fake cluster, or nil.
func read(t *testing.T, c *cluster, gvk schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	mapping, err := c.lookup(gvk)
	if err != nil {
		t.Fatal(err)
	}
	u, err := c.resource(mapping, namespace).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestHandBack(t *testing.T) {
	c, _ := handedBack(t, managerOf(0, "trustyai"))
	for range 2 {
		stdout, stderr, err := run(t, NewHandBackCommand(environment(fakeController{}, c)), "")
		if err != nil || !strings.Contains(stdout, "apply the original operator's manifest") {
			t.Fatalf("%v\n%s%s", err, stdout, stderr)
		}
	}
	workload, claim := read(t, c, deployGVK, "default", "w"), read(t, c, claimGVK, "default", "data")
	want := metav1.OwnerReference{APIVersion: "trustyai.opendatahub.io/v1", Kind: "TrustyAIService", Name: "s", UID: "1", Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}
	if refs := workload.GetOwnerReferences(); len(refs) != 1 || refs[0].String() != want.String() {
		t.Errorf("the owners of the workload are %v", refs)
	}
	if len(claim.GetOwnerReferences()) > 0 {
		t.Errorf("the claim is deleted with %v", claim.GetOwnerReferences())
	}
	for _, u := range []*unstructured.Unstructured{workload, claim} {
		if len(u.GetLabels()) != 1 || u.GetLabels()["app"] != "s" || len(u.GetAnnotations()) > 0 {
			t.Errorf("%s has %v %v", plan.KeyOf(u), u.GetLabels(), u.GetAnnotations())
		}
	}
	if read(t, c, bindingGVK, "", "s-default-proxy") != nil {
		t.Error("a binding of MLKeeper's role stays, which the original operator does not correct")
	}
	if read(t, c, inventoryKind, "", "i") != nil {
		t.Error("the Inventory stays")
	}
	if u := read(t, c, configGVK, "default", "c"); len(u.GetOwnerReferences()) > 0 {
		t.Errorf("an object of another was written: %v", u)
	}
}

// kfDefController is of a kind whose original operator is gone, although it is known under which names that wrote.
type kfDefController struct{ fakeController }

var kfDefKind = kubeflowv1.GroupVersion.WithKind("KfDef")

func (kfDefController) Name() string                 { return "kubeflow" }
func (kfDefController) GVK() schema.GroupVersionKind { return kfDefKind }
func (kfDefController) Resource() string             { return "kfdefs" }
func (kfDefController) Previous() controller.Previous {
	return controller.Previous{Finalizers: []string{"kfdef-finalizer.kfdef.apps.kubeflow.org"}, Managers: []string{"kfctl"}}
}

// TestHandBackLeavesOtherKinds has a KfDef with an Inventory beside the TrustyAIService: nothing of the KfDef's is written.
func TestHandBackLeavesOtherKinds(t *testing.T) {
	kfDef := object(kfDefKind, "default", "kubeflow", nil)
	kfDef.SetUID("of-kfdef")
	stack := stackOf(kfDefController{}, kfDef)
	child := object(configGVK, "default", "of-kubeflow", nil)
	child.SetLabels(map[string]string{keeper.ControllerLabel: "kubeflow", keeper.StackLabel: stack.Hash()})
	child.SetAnnotations(map[string]string{keeper.OwnerAnnotation: stack.ID()})
	inventory := object(inventoryKind, "", "k", map[string]any{"spec": map[string]any{
		"owner":   map[string]any{"group": kfDefKind.Group, "kind": kfDefKind.Kind, "namespace": "default", "name": "kubeflow", "uid": "of-kfdef"},
		"entries": []any{map[string]any{"version": "v1", "kind": "ConfigMap", "namespace": "default", "name": "of-kubeflow"}},
	}})
	inventory.SetUID("of-k")
	inventory.SetLabels(map[string]string{keeper.StackLabel: stack.Hash()})
	c, dyn := handedBack(t, kfDef, child, inventory)
	env := environment(fakeController{}, c)
	env.Controllers = func() []controller.Any { return []controller.Any{fakeController{}, kfDefController{}} }
	stdout, _, err := run(t, NewHandBackCommand(env), "")
	if err != nil || !strings.Contains(stdout, "Inventory i: deleted") {
		t.Fatalf("%v\n%s", err, stdout)
	}
	for _, a := range dyn.Actions() {
		name := ""
		switch a := a.(type) {
		case clienttesting.UpdateActionImpl:
			name = a.GetObject().(*unstructured.Unstructured).GetName()
		case clienttesting.DeleteActionImpl:
			name = a.GetName()
		case clienttesting.PatchActionImpl:
			name = a.GetName()
		}
		if slices.Contains([]string{"kubeflow", "of-kubeflow", "k"}, name) {
			t.Errorf("%s of %s %s", a.GetVerb(), a.GetResource().Resource, name)
		}
	}
}

func TestHandBackWritesNothing(t *testing.T) {
	refuse := func(dyn *dynamicfake.FakeDynamicClient, onlyDryRuns bool) {
		for _, verb := range []string{"create", "update", "patch", "delete"} {
			dyn.PrependReactor(verb, "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
				var dry []string
				switch a := a.(type) {
				case clienttesting.UpdateActionImpl:
					dry = a.UpdateOptions.DryRun
				case clienttesting.DeleteActionImpl:
					dry = a.DeleteOptions.DryRun
				}
				if !onlyDryRuns || len(dry) != 1 {
					t.Errorf("%s of %s", a.GetVerb(), a.GetResource().Resource)
				}
				return true, &unstructured.Unstructured{}, nil
			})
		}
	}
	c, dyn := handedBack(t)
	refuse(dyn, true)
	stdout, _, err := run(t, NewHandBackCommand(environment(fakeController{}, c)), "", "--dry-run")
	if err != nil || !strings.Contains(stdout, "dry run: Inventory i: deleted") {
		t.Errorf("%v\n%s", err, stdout)
	}
	c, dyn = handedBack(t, managerOf(1, "trustyai"))
	refuse(dyn, false)
	if _, _, err := run(t, NewHandBackCommand(environment(fakeController{}, c)), ""); err == nil || !strings.Contains(err.Error(), "--replicas=0") {
		t.Errorf("while the manager runs: %v", err)
	}
}

// TestHandBackWaitsForTheManagerToStop: a manager that starts, or that has not ended yet, adopts everything again as one that is available.
func TestHandBackWaitsForTheManagerToStop(t *testing.T) {
	scaled := func(declared any, left int64) *unstructured.Unstructured {
		u := managerOf(0, "trustyai")
		u.SetGeneration(2)
		u.Object["status"] = map[string]any{"observedGeneration": int64(2), "replicas": left}
		unstructured.RemoveNestedField(u.Object, "spec", "replicas")
		if declared != nil {
			u.Object["spec"].(map[string]any)["replicas"] = declared
		}
		return u
	}
	unseen := scaled(int64(0), 0)
	unseen.SetGeneration(3)
	pod := func(phase string) *unstructured.Unstructured {
		u := object(podKind, "mlkeeper-system", "mlkeeper-controller-manager-1", map[string]any{"status": map[string]any{"phase": phase}})
		u.SetLabels(map[string]string{"app.kubernetes.io/name": "mlkeeper", "control-plane": "controller-manager"})
		return u
	}
	for name, row := range map[string]struct {
		objects []*unstructured.Unstructured
		want    string
	}{
		"it starts":                        {[]*unstructured.Unstructured{scaled(int64(1), 1)}, "--replicas=0"},
		"it has no pod yet":                {[]*unstructured.Unstructured{scaled(int64(1), 0)}, "--replicas=0"},
		"the default is one":               {[]*unstructured.Unstructured{scaled(nil, 0)}, "--replicas=0"},
		"the pods are not counted yet":     {[]*unstructured.Unstructured{unseen}, "is stopping"},
		"a pod is counted":                 {[]*unstructured.Unstructured{scaled(int64(0), 1)}, "is stopping"},
		"a pod runs":                       {[]*unstructured.Unstructured{scaled(int64(0), 0), pod("Running")}, "mlkeeper-system/mlkeeper-controller-manager-1"},
		"a pod without a Deployment":       {[]*unstructured.Unstructured{pod("Pending")}, "mlkeeper-system/mlkeeper-controller-manager-1"},
		"an evicted pod has ended":         {[]*unstructured.Unstructured{scaled(int64(0), 0), pod("Failed")}, ""},
		"it is scaled to zero, and stands": {[]*unstructured.Unstructured{scaled(int64(0), 0)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, dyn := handedBack(t, row.objects...)
			_, _, err := run(t, NewHandBackCommand(environment(fakeController{}, c)), "")
			if row.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%v does not say %q", err, row.want)
			}
			for _, a := range dyn.Actions() {
				if a.GetVerb() != "get" && a.GetVerb() != "list" {
					t.Errorf("%s of %s", a.GetVerb(), a.GetResource().Resource)
				}
			}
		})
	}
}

// TestHandBackKeepsTheInventoryOfWhatCouldNotBeWritten: with the Inventory, Kubernetes would delete what still refers to it.
func TestHandBackKeepsTheInventoryOfWhatCouldNotBeWritten(t *testing.T) {
	c, dyn := handedBack(t)
	dyn.PrependReactor("update", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "w", errors.New("no"))
	})
	_, _, err := run(t, NewHandBackCommand(environment(fakeController{}, c)), "")
	if err == nil || !strings.Contains(err.Error(), "run hand-back again") {
		t.Errorf("%v", err)
	}
	if read(t, c, inventoryKind, "", "i") == nil {
		t.Error("the Inventory is deleted")
	}
}

// TestHandBackRepeatedDoesNothing repeats the command at once: an Inventory deleted with the propagation policy Orphan stays until the garbage
// collector has removed its finalizer, which takes seconds on a busy cluster.
func TestHandBackRepeatedDoesNothing(t *testing.T) {
	c, dyn := handedBack(t)
	u := read(t, c, inventoryKind, "", "i")
	dyn.PrependReactor("delete", "inventories", func(clienttesting.Action) (bool, runtime.Object, error) {
		u.SetDeletionTimestamp(ptr.To(metav1.Now()))
		u.SetFinalizers([]string{metav1.FinalizerOrphanDependents})
		return true, nil, dyn.Tracker().Update(keeper.GroupVersion.WithResource("inventories"), u, "")
	})
	first, _, err := run(t, NewHandBackCommand(environment(fakeController{}, c)), "")
	if err != nil || !strings.Contains(first, "Inventory i: deleted") {
		t.Fatalf("%v\n%s", err, first)
	}
	dyn.ClearActions()
	again, _, err := run(t, NewHandBackCommand(environment(fakeController{}, c)), "")
	if err != nil || strings.Count(again, "\n") != 1 {
		t.Errorf("the second run says %v\n%s", err, again)
	}
	for _, a := range dyn.Actions() {
		if a.GetVerb() != "get" && a.GetVerb() != "list" {
			t.Errorf("the second run writes: %s of %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
}
