package act

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/internal/engine/plan"
)

// TestWhatMayBeAdopted: with the operator's rights nothing is adopted that concerns another namespace than the custom resource's.
func TestWhatMayBeAdopted(t *testing.T) {
	object := func(kind, namespace string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind}}
		u.SetNamespace(namespace)
		return u
	}
	own := Request{Stack: plan.Stack{Namespace: "ns"}}
	for name, c := range map[string]struct {
		request Request
		live    *unstructured.Unstructured
		want    bool
	}{
		"its own namespace":                   {own, object("RoleBinding", "ns"), true},
		"another namespace":                   {own, object("RoleBinding", "other"), false},
		"a ClusterRoleBinding":                {own, object("ClusterRoleBinding", ""), false},
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
