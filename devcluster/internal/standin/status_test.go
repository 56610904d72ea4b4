package standin

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
		if r.spec != nil {
			if !r.spec(obj) || r.spec(obj) {
				t.Errorf("%s: the defaults do not settle", r.crd)
			}
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

func TestRouteHostOfTheUserStays(t *testing.T) {
	obj := object()
	if err := unstructured.SetNestedField(obj.Object, "mine.example", "spec", "host"); err != nil {
		t.Fatal(err)
	}
	if defaultRouteHost(obj) || obj.GetAnnotations() != nil {
		t.Error("the route was changed")
	}
}
