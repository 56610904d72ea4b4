package act

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
)

// mounting is a Deployment whose pods mount a ConfigMap.
func mounting(t *testing.T, name, configMap string) plan.Stamped {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	u.SetNamespace("ns")
	u.SetName(name)
	volumes := []any{map[string]any{"name": "v", "configMap": map[string]any{"name": configMap}}}
	if err := unstructured.SetNestedSlice(u.Object, volumes, "spec", "template", "spec", "volumes"); err != nil {
		t.Fatal(err)
	}
	return stamp(t, plan.Object{Desired: u})
}

// TestNoPodsOfWhatTurnsOutToBeAnothers: only the write of an object finds one without our labels at its name. A Deployment of the same pass
// whose pods would mount that is not created, however many writes are in flight; its neighbours are.
func TestNoPodsOfWhatTurnsOutToBeAnothers(t *testing.T) {
	for _, neighbours := range []int{1, 2 * fewWrites} {
		c := newCast(t)
		before := c.server.put(path, "kubectl", configMap("cm", map[string]any{"theirs": "1"}))
		actions := []decide.Action{creates(mounting(t, "mounts", "cm")), creates(declared(t, nil))}
		for i := range neighbours {
			name := fmt.Sprintf("other-%d", i)
			actions = append(actions, creates(mounting(t, name, name)), creates(stamp(t, plan.Object{Desired: configMap(name, nil)})))
		}
		req := Request{Stack: stack, Owners: []plan.Owner{self}, Actions: actions}
		conflicts := 0
		for _, r := range c.Do(t.Context(), req) {
			switch {
			case r.Action.Key.Name == "mounts":
				t.Error("the Deployment has a result")
			case r.Problem != nil && r.Problem.Reason == ReasonConflict && r.Action.Key.Name == "cm":
				conflicts++
			case !r.Wrote:
				t.Errorf("%s: %+v", r.Action.Key, r)
			}
		}
		deployments := "/apis/apps/v1/namespaces/ns/deployments/"
		if conflicts != 1 || c.server.get(deployments+"mounts") != nil || c.server.get(deployments+"other-0") == nil {
			t.Errorf("%d conflicts, and the Deployment is %v", conflicts, c.server.get(deployments+"mounts"))
		}
		if after := c.server.get(path); after.GetResourceVersion() != before.GetResourceVersion() {
			t.Error("the object of another was written")
		}
		delete(c.server.objects, path)
		if c.Do(t.Context(), Request{Stack: stack, Owners: []plan.Owner{self}, Actions: actions[:2]}); c.server.get(deployments+"mounts") == nil {
			t.Error("the Deployment is not created when the name is free")
		}
	}
}
