package tfserving

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
)

// TestWhatIsLeftOutReplacesNothing: an Ingress and a HorizontalPodAutoscaler stay while the API of what is declared in their place is not served.
func TestWhatIsLeftOutReplacesNothing(t *testing.T) {
	const route, keda = "  httpRoute: {host: h.example.com, gateway: {name: public}}\n", "  autoscaling: {maxReplicas: 3, keda: {triggers: [{type: cron, metadata: {a: b}}]}}\n"
	for name, c := range map[string]struct {
		spec   string
		served []schema.GroupVersionKind
		keeps  string
	}{
		"without the Gateway API": {spec: route, keeps: "Ingress"},
		"with it":                 {spec: route, served: []schema.GroupVersionKind{gvkHTTPRoute, gvkGRPCRoute}},
		"beside an Ingress":       {spec: route + "  ingress: {host: h.example.com}\n"},
		"without KEDA":            {spec: keda, keeps: "HorizontalPodAutoscaler"},
		"with KEDA":               {spec: keda, served: []schema.GroupVersionKind{gvkScaledObject}},
		"neither is declared":     {},
	} {
		cr := custom(t, inline+c.spec)
		for _, gvk := range []schema.GroupVersionKind{gvkIngress, gvkAutoscaler} {
			cr.Status.Inventory.Entries = append(cr.Status.Inventory.Entries, keeper.InventoryEntry{ObjectReference: keeper.ObjectReference{
				Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: cr.Namespace, Name: cr.Name,
			}})
		}
		_, p := gatherAndRender(t, controllertest.New(testNow, c.served...), cr)
		var kept []string
		for _, key := range p.Keep {
			kept = append(kept, key.Kind)
			if key.Namespace == "" || key.Name != "tfs" {
				t.Errorf("%s: kept is %s", name, key)
			}
		}
		if got := strings.Join(kept, " "); got != c.keeps {
			t.Errorf("%s: kept are %q, not %q (%s)", name, got, c.keeps, fmt.Sprint(p.Problems))
		}
	}
}

// TestWhileAProblemStandsWhatLeadsToThePodsStays: the Deployment is not rendered, and its pods serve what they did.
func TestWhileAProblemStandsWhatLeadsToThePodsStays(t *testing.T) {
	cr := custom(t, inline)
	for name, c := range map[string]struct {
		facts Facts
		held  bool
	}{
		"there are pods":              {Facts{Running: &Running{}, Problems: []plan.Problem{{Reason: "ConfigInvalid"}}}, true},
		"there are no pods yet":       {Facts{Problems: []plan.Problem{{Reason: "ConfigInvalid"}}}, false},
		"there are pods, and nothing": {Facts{Running: &Running{}}, false},
	} {
		p := testSystem().Render(cr, c.facts)
		for _, o := range p.Stages[0].Objects {
			if (o.HoldChanges != "") != c.held {
				t.Errorf("%s: %s waits for %q", name, o.Key(), o.HoldChanges)
			}
		}
		if find(p, gvkService.Kind) == nil {
			t.Errorf("%s: there is no Service", name)
		}
	}
}
