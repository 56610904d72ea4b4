package trustyai

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/wiring"
)

// enlarge gives an object as much metadata as the API server accepts, and managedFields in the name of the wires.
func enlarge(u *unstructured.Unstructured) {
	long := strings.Repeat("x", 200<<10)
	marks, labels, finalizers, owners, fields := u.GetAnnotations(), u.GetLabels(), []string{}, []any{}, map[string]any{}
	if marks == nil {
		marks = map[string]string{}
	}
	if labels == nil {
		labels = map[string]string{}
	}
	marks["example.com/note"], marks[keeper.WiringAnnotation], marks[istioInject] = long, long, long
	var claims []any
	for i := range 3000 {
		name := fmt.Sprintf("example.com/%s%04d", strings.Repeat("a", 40), i)
		labels[name], finalizers, fields["f:"+name] = strings.Repeat("v", 60), append(finalizers, name), map[string]any{}
		owners = append(owners, map[string]any{"apiVersion": "v1", "kind": "K", "name": name, "uid": name})
		claims = append(claims, map[string]any{"manager": wiring.ClaimManager, "subresource": name, "fieldsV1": map[string]any{}})
	}
	u.SetAnnotations(marks)
	u.SetLabels(labels)
	u.SetFinalizers(finalizers)
	metadata := u.Object["metadata"].(map[string]any) //nolint:forcetypeassert // The setters have made it.
	metadata["ownerReferences"] = owners
	metadata["managedFields"] = append(claims, map[string]any{"manager": wiring.ClaimManager, "fieldsV1": fields})
}

// TestTheCacheKeepsLittleOfWhatIsWired: whoever may write an InferenceService, or a Deployment with ModelMesh's label, may make it as large as the
// API server accepts.
func TestTheCacheKeepsLittleOfWhatIsWired(t *testing.T) {
	long := strings.Repeat("x", 400<<10)
	var mounts, volumes, env []any
	for i := range 5000 {
		name := fmt.Sprintf("%s-%d", strings.Repeat("v", 50), i)
		mounts, volumes = append(mounts, map[string]any{"name": name, "mountPath": "/" + name}), append(volumes, map[string]any{"name": name})
		env = append(env, map[string]any{"name": meshEnv, "value": name})
	}
	pods := func(containers ...any) map[string]any {
		return map[string]any{"template": map[string]any{"spec": map[string]any{"containers": containers, "volumes": volumes}}}
	}
	fields := map[string]any{"url": long, "mode": long, "storage": map[string]any{"path": long}}
	for i := range 5000 {
		fields[fmt.Sprintf("a%0100d", i)] = long[:100]
	}
	for name, c := range map[string]struct {
		wire    string
		content map[string]any
	}{
		"mounts and variables": {WireMeshDeployments, map[string]any{"spec": pods(map[string]any{"name": "mm", "volumeMounts": mounts, "env": env})}},
		"a long list of payload processors": {WireMeshDeployments, map[string]any{"spec": pods(map[string]any{
			"name": "mm", "env": []any{map[string]any{"name": meshEnv, "value": long}},
		})}},
		"a long source of a variable": {WireMeshDeployments, map[string]any{"spec": pods(map[string]any{
			"name": "mm", "env": []any{map[string]any{"name": meshEnv, "valueFrom": map[string]any{"x": long}}},
		})}},
		"a logger": {WireKServe, map[string]any{"spec": map[string]any{"predictor": map[string]any{"logger": fields}}}},
		"a mode":   {WireKServe, map[string]any{"status": map[string]any{"deploymentMode": long}}},
		"a file":   {WireMeshConfig, map[string]any{"data": map[string]any{meshConfigFile: long, "more": long}}},
	} {
		wire := wireNamed(c.wire)
		u := &unstructured.Unstructured{Object: c.content}
		u.SetNamespace("ns")
		u.SetName("large")
		enlarge(u)
		live := u.DeepCopy()
		wiring.KeepClaims(u)
		kept := wire.Strip(u)
		raw, err := json.Marshal(kept)
		limit := 160 << 10
		if c.wire == WireMeshConfig {
			limit += maxMeshConfig
		}
		if err != nil || len(raw) > limit {
			t.Errorf("%s: %d bytes are kept, more than %d: %v", name, len(raw), limit, err)
		}
		alive := []client.Object{service("a", true, 0), service("b", false, 0)}
		if a, b := wire.Wanted(live, alive), wire.Wanted(kept, alive); !slices.Equal(a, b) {
			t.Errorf("%s: of the live object is wanted %v, of the one that is kept %v", name, a, b)
		}
		if a, b := outcomesOf(t, wire, live, alive), outcomesOf(t, wire, kept, alive); !slices.Equal(a, b) {
			t.Errorf("%s: the live object gives %+v, the one that is kept %+v", name, a, b)
		}
	}
}

// TestALabelThatIsNotKeptSelectsNothing: the cache and the live object lead to the same decision.
func TestALabelThatIsNotKeptSelectsNothing(t *testing.T) {
	live := isvc(t, "Serverless", "")
	enlarge(live)
	wire := wireNamed(WireKServe)
	kept := wire.Strip(live.DeepCopy())
	for name, want := range map[string]bool{"example.com/" + strings.Repeat("a", 40) + "0000": true, "example.com/" + strings.Repeat("a", 40) + "2999": false} {
		cr := service("a", true, 0)
		matching := keeper.LabelSelector{MatchLabels: map[string]keeper.LabelValue{name: keeper.LabelValue(strings.Repeat("v", 60))}}
		cr.Spec.InferenceServices = &v1.InferenceServicesSpec{Selector: &matching}
		for what, labels := range map[string]map[string]string{"live": live.GetLabels(), "kept": kept.GetLabels()} {
			if got, err := selects(cr, labels); got != want || err != nil {
				t.Errorf("%s: the %s object is selected: %t, %v", name, what, got, err)
			}
		}
	}
}

// outcomesOf are those of an edit without a record.
func outcomesOf(t *testing.T, wire wiring.Wire, target *unstructured.Unstructured, alive []client.Object) []wiring.Outcome {
	t.Helper()
	edited, outcomes, err := wire.Edit(target, nil, wire.Wanted(target, alive))
	if err != nil {
		t.Fatal(err)
	}
	return append(outcomes, wiring.Outcome{Wired: edited != nil})
}

// TestMetadataOfOthersStaysInWhatIsWired: what the cache does not keep of an object is still there after an edit.
func TestMetadataOfOthersStaysInWhatIsWired(t *testing.T) {
	for name, original := range map[string]*unstructured.Unstructured{
		WireMeshDeployments: meshDeployment(t), WireKServe: isvc(t, "Serverless", ""),
	} {
		s := simulate(t, wireNamed(name), original.GetName())
		original.SetFinalizers([]string{"example.com/finalizer"})
		marks, labels := original.GetAnnotations(), original.GetLabels()
		if marks == nil {
			marks = map[string]string{}
		}
		marks["example.com/note"] = "x"
		original.SetAnnotations(marks)
		original.Object["metadata"].(map[string]any)["ownerReferences"] = []any{ //nolint:forcetypeassert // The setters have made it.
			map[string]any{"apiVersion": "v1", "kind": "K", "name": "owner", "uid": "u"},
		}
		s.Put(original)
		cr := service("n", false, 0)
		s.settle(cr)
		if o := s.outcome(cr); !o.Wired {
			t.Fatalf("%s: outcome %+v", name, o)
		}
		u := s.target()
		if len(u.GetFinalizers()) != 1 || len(u.GetOwnerReferences()) != 1 || u.GetAnnotations()["example.com/note"] != "x" ||
			!maps.Equal(u.GetLabels(), labels) {
			t.Errorf("%s: of the metadata of others is left %v", name, u.Object["metadata"])
		}
	}
}
