package finalize

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

func TestCallsOnly(t *testing.T) {
	services := map[plan.Key]bool{{GroupKind: schema.GroupKind{Kind: "Service"}, Namespace: "ns", Name: "ours"}: true}
	hook := func(name string) any {
		return map[string]any{"clientConfig": map[string]any{"service": map[string]any{"namespace": "ns", "name": name}}}
	}
	elsewhere := map[string]any{"clientConfig": map[string]any{"url": "https://example.test"}}
	service := func(name string) map[string]any {
		return map[string]any{"spec": map[string]any{"service": map[string]any{"namespace": "ns", "name": name}}}
	}
	for name, c := range map[string]struct {
		object map[string]any
		want   bool
	}{
		"a webhook of ours":           {map[string]any{"webhooks": []any{hook("ours")}}, true},
		"several of ours":             {map[string]any{"webhooks": []any{hook("ours"), hook("ours")}}, true},
		"one of ours and another's":   {map[string]any{"webhooks": []any{hook("ours"), hook("theirs")}}, false},
		"one of ours and an address":  {map[string]any{"webhooks": []any{hook("ours"), elsewhere}}, false},
		"another's":                   {map[string]any{"webhooks": []any{hook("theirs")}}, false},
		"none":                        {map[string]any{"webhooks": []any{}}, false},
		"an APIService of ours":       {service("ours"), true},
		"an APIService of another":    {service("theirs"), false},
		"an APIService of Kubernetes": {map[string]any{"spec": map[string]any{}}, false},
	} {
		if got := callsOnly(&unstructured.Unstructured{Object: c.object}, services); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestOwnedByAnother(t *testing.T) {
	inv := &keeper.Inventory{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{keeper.OwnerAnnotation: "Kind.group/ns/us"}}}
	for id, want := range map[string]bool{"": false, "Kind.group/ns/us": false, "Kind.group/ns/them": true} {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		if id != "" {
			u.SetAnnotations(map[string]string{keeper.OwnerAnnotation: id})
		}
		if got := ownedByAnother(u, inv); got != want {
			t.Errorf("%q: %v", id, got)
		}
	}
}
