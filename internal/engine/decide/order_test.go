package decide

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/plan"
)

// TestInOrder: what pods refer to comes before them, and what they serve after.
func TestInOrder(t *testing.T) {
	action := func(verb Verb, group, kind, name string) Action {
		return Action{Verb: verb, Key: plan.Key{GroupKind: schema.GroupKind{Group: group, Kind: kind}, Name: name}}
	}
	given := []Action{
		action(Delete, "", "ConfigMap", "old"),
		action(Create, "cert-manager.io", "Issuer", "a"),
		action(Create, "admissionregistration.k8s.io", "MutatingWebhookConfiguration", "b"),
		action(Create, "batch", "Job", "c"),
		action(Apply, "apps", "Deployment", "d"),
		action(Create, "", "Service", "e"),
		action(Create, "serving.knative.dev", "Service", "f"),
		action(Create, "apiextensions.k8s.io", "CustomResourceDefinition", "j"),
		action(Create, "rbac.authorization.k8s.io", "RoleBinding", "g"),
		action(Apply, "", "ConfigMap", "h"),
		action(Create, "", "Secret", "i"),
	}
	if n := InOrder(given); n != 3 {
		t.Errorf("pods may refer to the first %d", n)
	}
	var got []string
	for _, a := range given {
		got = append(got, a.Key.Name)
	}
	if want := []string{"g", "h", "i", "j", "e", "c", "d", "a", "b", "f", "old"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
