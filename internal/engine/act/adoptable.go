package act

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// adoptable says whether the owner of a custom resource may adopt an object that nobody owns. What is written with the operator's rights
// must be in the custom resource's namespace, or bind roles to its ServiceAccounts alone: two namespaces may come to one name of a
// ClusterRoleBinding, and the right to write a custom resource is none to replace the bindings of others.
func (r Request) adoptable(live *unstructured.Unstructured) bool {
	if r.AdoptAnywhere || r.ActAs != "" || r.Stack.Namespace == "" || live.GetNamespace() == r.Stack.Namespace {
		return true
	}
	if gk := live.GroupVersionKind().GroupKind(); gk.Group != rbacv1.GroupName || gk.Kind != "ClusterRoleBinding" {
		return false
	}
	var binding rbacv1.ClusterRoleBinding
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, &binding); err != nil {
		return false
	}
	for _, subject := range binding.Subjects {
		if subject.Kind != rbacv1.ServiceAccountKind || subject.Namespace != r.Stack.Namespace {
			return false
		}
	}
	return len(binding.Subjects) > 0
}
