package act

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// adoptable says whether the owner of a custom resource may adopt an object that nobody owns. What is written with the operator's rights
// must be in the custom resource's namespace: the right to write a custom resource is none to replace what concerns other namespaces.
func (r Request) adoptable(live *unstructured.Unstructured) bool {
	return r.AdoptAnywhere || r.ActAs != "" || r.Stack.Namespace == "" || live.GetNamespace() == r.Stack.Namespace
}
