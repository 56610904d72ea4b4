package kustomize

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// accountsAndBindings are bindings like those of Istio 1.9 for OpenShift in Kubeflow 1.3, whose subjects have no namespace.
const accountsAndBindings = `
-- app/base/kustomization.yaml --
resources: [m.yaml]
-- app/kustomization.yaml --
resources: [base/m.yaml]
-- app/base/m.yaml --
apiVersion: v1
kind: ServiceAccount
metadata: {name: gateway, namespace: elsewhere}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: gateway, namespace: istio}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: own, namespace: istio}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}
subjects:
- {kind: ServiceAccount, name: gateway}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: given, namespace: istio}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}
subjects:
- {kind: ServiceAccount, name: gateway, namespace: elsewhere}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: none, namespace: other}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}
subjects:
- {kind: ServiceAccount, name: gateway}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: everywhere}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}
subjects:
- {kind: User, name: gateway}
- {kind: ServiceAccount, name: gateway}
`

// TestSubjectsHaveTheNamespaceOfTheirAccount renders bindings with kubeflow-apps, which sets no namespace. The expectations are what kustomize
// v3.2.0 makes of the same files, but for the user, to whom it gave the namespace of the ServiceAccount of that name.
func TestSubjectsHaveTheNamespaceOfTheirAccount(t *testing.T) {
	in := input(accountsAndBindings, func(a *Application) { a.Name = stacksApplication })
	in.Rendering = Kfctl
	r := rendered(t, in)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	for _, want := range []struct {
		kind, name, namespace string
		subject               int
	}{
		{"RoleBinding", "own", "istio", 0},
		{"RoleBinding", "given", "elsewhere", 0},
		{"RoleBinding", "none", "", 0},
		{"ClusterRoleBinding", "everywhere", "", 0},
		{"ClusterRoleBinding", "everywhere", "elsewhere", 1},
	} {
		subjects, _, _ := unstructured.NestedSlice(find(t, r, want.kind, want.name).Object, "subjects")
		if got, _ := subjects[want.subject].(map[string]any)["namespace"].(string); got != want.namespace {
			t.Errorf("subject %d of %s %s is in the namespace %q, not %q", want.subject, want.kind, want.name, got, want.namespace)
		}
	}
	in.Rendering = Kustomize
	subjects, _, _ := unstructured.NestedSlice(find(t, rendered(t, in), "RoleBinding", "own").Object, "subjects")
	if namespace, placed := subjects[0].(map[string]any)["namespace"]; placed {
		t.Errorf("kustomize build sets no namespace, and there is %v", namespace)
	}
}
