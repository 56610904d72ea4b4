package kustomize

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// openAPI guards what kustomize knows of the kinds of Kubernetes, which it reads when it is asked first.
var openAPI sync.Mutex

// Namespaced says whether the objects of a kind of Kubernetes are in namespaces, as kustomize knows it without a cluster,
// and whether it knows the kind.
func Namespaced(gvk schema.GroupVersionKind) (namespaced, known bool) {
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	openAPI.Lock()
	defer openAPI.Unlock()
	return openapi.IsNamespaceScoped(yaml.TypeMeta{APIVersion: apiVersion, Kind: kind})
}
