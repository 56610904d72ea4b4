package tfserving

import (
	"encoding/json"
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
		"with this kind of it":    {spec: route, served: []schema.GroupVersionKind{gvkHTTPRoute}},
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

// TestWhileAProblemStandsWhatLeadsToThePodsStays: the Deployment is not rendered, and its pods have the ports that they had.
func TestWhileAProblemStandsWhatLeadsToThePodsStays(t *testing.T) {
	cr := custom(t, inline+"  httpRoute: {host: h.example.com, gateway: {name: public}}\n  restPort: 9999\n")
	wrong := []plan.Problem{{Reason: "ConfigInvalid"}}
	for name, c := range map[string]struct {
		facts Facts
		want  int64
	}{
		"there are pods":              {Facts{Running: &Running{}, Problems: wrong}, 8501},
		"there are no pods yet":       {Facts{Problems: wrong}, 9999},
		"there are pods, and nothing": {Facts{Running: &Running{}}, 9999},
	} {
		c.facts.HTTPRoute, c.facts.Ports = true, map[string]Port{restPortName: {Port: 8501, NodePort: 30000}}
		p := testSystem().Render(cr, c.facts)
		service, err := json.Marshal(find(p, gvkService.Kind).Desired.Object["spec"])
		if err != nil {
			t.Fatal(err)
		}
		route, err := json.Marshal(find(p, gvkHTTPRoute.Kind).Desired.Object["spec"])
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{fmt.Sprintf(`"port":%d`, c.want), fmt.Sprintf(`"targetPort":%d`, c.want)} {
			if !strings.Contains(string(service), part) {
				t.Errorf("%s: the Service has no %s: %s", name, part, service)
			}
		}
		if part := fmt.Sprintf(`"port":%d`, c.want); !strings.Contains(string(route), part) {
			t.Errorf("%s: the route has no %s: %s", name, part, route)
		}
	}
}
