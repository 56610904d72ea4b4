package kustomize

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Namespaced says whether the objects of a kind of Kubernetes are in namespaces, as kustomize knows it without a cluster,
// and whether it knows the kind.
func Namespaced(gvk schema.GroupVersionKind) (namespaced, known bool) {
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	one.Lock()
	defer one.Unlock()
	return openapi.IsNamespaceScoped(yaml.TypeMeta{APIVersion: apiVersion, Kind: kind})
}
