package cli

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/wiring"
)

func unwireController() fakeController {
	return fakeController{wires: []wiring.Wire{{
		Name: "config", GVK: configGVK,
		Edit: func(live *unstructured.Unstructured, _, _ []wiring.Entry) (*unstructured.Unstructured, []wiring.Outcome, error) {
			out := live.DeepCopy()
			unstructured.RemoveNestedField(out.Object, "data", "url")
			return out, nil, nil
		},
	}, {Name: "absent", GVK: routeGVK}}}
}

func wired() *unstructured.Unstructured {
	u := object(configGVK, "default", "config", map[string]any{"data": map[string]any{"url": "x", "own": "y"}})
	u.SetAnnotations(map[string]string{keeper.WiringAnnotation: `{"entries":[{"owner":"o","value":"x"}]}`})
	return u
}

func TestUnwire(t *testing.T) {
	c, dyn := fakeCluster(t, []schema.GroupVersionKind{configGVK}, wired())
	stdout, _, err := run(t, NewUnwireCommand(environment(unwireController(), c)), "")
	if err != nil || !strings.Contains(stdout, "ConfigMap default/config: took out 1 entries\n") ||
		!strings.Contains(stdout, "does not serve Route") {
		t.Fatalf("%v\n%s", err, stdout)
	}
	live, err := dyn.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default").
		Get(t.Context(), "config", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if data := live.Object["data"].(map[string]any); len(data) != 1 || data["own"] != "y" || len(live.GetAnnotations()) != 0 {
		t.Errorf("left: %v", live.Object)
	}
}

func TestUnwireDryRunOnlyAsks(t *testing.T) {
	c, dyn := fakeCluster(t, []schema.GroupVersionKind{configGVK}, wired())
	stdout, _, err := run(t, NewUnwireCommand(environment(unwireController(), c)), "", "--dry-run")
	if err != nil || !strings.Contains(stdout, "dry run: ConfigMap default/config: took out 1 entries") {
		t.Fatalf("%v\n%s", err, stdout)
	}
	for _, a := range dyn.Actions() {
		switch a := a.(type) {
		case clienttesting.UpdateActionImpl:
			if !slices.Equal(a.UpdateOptions.DryRun, []string{metav1.DryRunAll}) {
				t.Errorf("the update has options %v", a.UpdateOptions)
			}
		case clienttesting.ListActionImpl:
		default:
			t.Errorf("unwire does %s", a.GetVerb())
		}
	}
}

func TestDryRunRefusesOtherWrites(t *testing.T) {
	c, dyn := fakeCluster(t, []schema.GroupVersionKind{configGVK}, wired())
	api := dryRun{c.dynamic}.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")
	ctx := t.Context()
	_, create := api.Create(ctx, wired(), metav1.CreateOptions{})
	_, status := api.UpdateStatus(ctx, wired(), metav1.UpdateOptions{})
	_, patch := api.Patch(ctx, "config", "", nil, metav1.PatchOptions{})
	_, apply := api.Apply(ctx, "config", wired(), metav1.ApplyOptions{})
	_, applyStatus := api.ApplyStatus(ctx, "config", wired(), metav1.ApplyOptions{})
	all := api.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	for _, err := range []error{create, status, patch, apply, applyStatus, all} {
		if err == nil {
			t.Error("a write is let through")
		}
	}
	if err := api.Delete(ctx, "config", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	for _, a := range dyn.Actions() {
		if d, ok := a.(clienttesting.DeleteActionImpl); !ok || !slices.Equal(d.DeleteOptions.DryRun, []string{metav1.DryRunAll}) {
			t.Errorf("action %v", a)
		}
	}
}
