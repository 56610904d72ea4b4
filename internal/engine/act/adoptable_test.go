package act

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/internal/engine/plan"
)

// TestWhatMayBeAdopted: with the operator's rights nothing is adopted that concerns another namespace than the custom resource's.
func TestWhatMayBeAdopted(t *testing.T) {
	subject := func(kind, namespace string) any {
		return map[string]any{"kind": kind, "name": "x", "namespace": namespace}
	}
	object := func(kind, namespace string, subjects ...any) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "subjects": subjects}}
		u.SetNamespace(namespace)
		return u
	}
	binding := func(subjects ...any) *unstructured.Unstructured { return object("ClusterRoleBinding", "", subjects...) }
	own := Request{Stack: plan.Stack{Namespace: "ns"}}
	for name, c := range map[string]struct {
		request Request
		live    *unstructured.Unstructured
		want    bool
	}{
		"its own namespace":                   {own, object("RoleBinding", "ns"), true},
		"another namespace":                   {own, object("RoleBinding", "other"), false},
		"a binding of its ServiceAccount":     {own, binding(subject("ServiceAccount", "ns")), true},
		"a binding of another namespace's":    {own, binding(subject("ServiceAccount", "other")), false},
		"a binding of both":                   {own, binding(subject("ServiceAccount", "ns"), subject("ServiceAccount", "other")), false},
		"a binding of a user":                 {own, binding(subject("User", "ns")), false},
		"a binding of nobody":                 {own, binding(), false},
		"a ClusterRole":                       {own, object("ClusterRole", ""), false},
		"a ClusterRole, with a user's rights": {Request{Stack: own.Stack, ActAs: "user"}, object("ClusterRole", ""), true},
		"a ClusterRole, by a trusted author":  {Request{Stack: own.Stack, AdoptAnywhere: true}, object("ClusterRole", ""), true},
		"a custom resource without namespace": {Request{}, object("ClusterRole", ""), true},
	} {
		if got := c.request.adoptable(c.live); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
