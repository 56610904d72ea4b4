package tfserving

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
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
