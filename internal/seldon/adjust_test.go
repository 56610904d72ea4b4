package seldon

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/helm"
	"mlkeeper.dev/internal/origin"
	"mlkeeper.dev/internal/rendering"
	"mlkeeper.dev/internal/source"
)

// TestPatchesAreAsValues: patches and commonMetadata are applied before what the cluster does not serve is converted, other ones are another
// revision, and a component without them has the digest that builds before them have recorded. A wrong one is named.
func TestPatchesAreAsValues(t *testing.T) {
	s, kept := New(Settings{Sources: newFakeStore(t, small)}).(*system), made(t, nil, testNow)
	served := controllertest.New(testNow, schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"})
	rendered := func(spec v1alpha1.Component) *Result {
		t.Helper()
		r := request{
			component: component{name: core, spec: spec, chart: v1alpha1.Chart{Name: "small", Version: "1.0.0"}}, namespace: "ns", field: "spec.core",
			values: values{"key": "value"}, keys: kept, from: rendering.Source{Name: "small 1.0.0", Origin: origin.Origin{Chart: &source.ChartRequest{}}},
			cluster: helm.Cluster{Version: "v1.36.2", Serves: func(string) bool { return true }},
		}
		return ran(t, s, served, r.job(&v1alpha1.SeldonOperator{}))
	}
	digests := map[string]bool{}
	for _, spec := range []v1alpha1.Component{
		{},
		{Patches: []keeper.Patch{{Patch: "- {op: replace, path: /spec/minAvailable, value: 2}", Target: &keeper.PatchTarget{Version: "v1beta1"}}}},
		{CommonMetadata: &keeper.CommonMetadata{Labels: map[string]string{"team": "a"}}},
	} {
		result := rendered(spec)
		if result.Failure != nil {
			t.Fatal(result.Failure)
		}
		budget := result.Content.Objects[0]
		patched := budget.Object["spec"].(map[string]any)["minAvailable"] == int64(2)
		if patched != (spec.Patches != nil) || (budget.GetLabels()["team"] == "a") != (spec.CommonMetadata != nil) || budget.GetAPIVersion() != "policy/v1" {
			t.Errorf("%+v: %v", spec, budget.Object)
		}
		digests[result.Content.ValuesDigest] = true
	}
	if !digests[kept.digestValues(values{"key": "value"})] || len(digests) != 3 {
		t.Errorf("the digests are %v", digests)
	}
	for field, spec := range map[string]v1alpha1.Component{
		"spec.core.patches[0]":     {Patches: []keeper.Patch{{Patch: "text"}}},
		"spec.core.commonMetadata": {CommonMetadata: &keeper.CommonMetadata{Labels: map[string]string{"a b": "c"}}},
	} {
		p := rendered(spec).Failure
		if p == nil || p.Class != plan.Terminal || p.Reason != reasonChartFailed || p.Field != field || p.Value == "" || p.Message == "" || p.Remedy == "" {
			t.Errorf("%s: %+v", field, p)
		}
	}
}
