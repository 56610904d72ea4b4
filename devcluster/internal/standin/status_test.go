package standin

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

func object() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "n", "namespace": "ns", "generation": int64(3)},
		"spec":     map[string]any{},
	}}
}

// A status that is not settled by its own writing would be written for ever.
func TestEveryRoleSettles(t *testing.T) {
	for _, r := range roles {
		obj := object()
		if r.status == nil {
			continue // Its status follows from other objects.
		}
		first := r.status(obj, "2026-01-01T00:00:00Z")
		if settled(obj.Object["status"], first) {
			t.Errorf("%s: an empty status is settled", r.crd)
		}
		if !settled(first, r.status(obj, "2027-01-01T00:00:00Z")) {
			t.Errorf("%s: only the time changed, and it is not settled", r.crd)
		}
	}
}

// TestTheOldestRouteHasTheHost: the others are told why they have it not, until it goes.
func TestTheOldestRouteHasTheHost(t *testing.T) {
	route := func(namespace, name, path string, second int64) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"host": "h.example", "path": path}}}
		u.SetNamespace(namespace)
		u.SetName(name)
		u.SetUID(types.UID(namespace + name))
		u.SetCreationTimestamp(metav1.Unix(second, 0))
		return u
	}
	first, other, beside, foreign := route("a", "first", "", 1), route("a", "other", "", 2), route("a", "beside", "/p", 3), route("b", "foreign", "/q", 4)
	all := []any{foreign, beside, other, first}
	for u, want := range map[*unstructured.Unstructured]string{
		first: "", beside: "", other: "HostAlreadyClaimed", foreign: "HostAlreadyClaimed", {}: "NoHostValue",
	} {
		status := routeStatus(u, all, "now")
		if want == "NoHostValue" {
			status = routeStatus(&unstructured.Unstructured{Object: map[string]any{}}, nil, "now")
		}
		condition := status["ingress"].([]any)[0].(map[string]any)["conditions"].([]any)[0].(map[string]any)
		if reason, _ := condition["reason"].(string); reason != want || (condition["status"] == "True") != (want == "") {
			t.Errorf("%s: %v", u.GetName(), condition)
		}
	}
	status := routeStatus(other, []any{foreign, beside, other}, "now")
	if got := status["ingress"].([]any)[0].(map[string]any)["conditions"].([]any)[0].(map[string]any)["status"]; got != "True" {
		t.Errorf("with the oldest gone it is %v", got)
	}
}
