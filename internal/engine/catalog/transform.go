package catalog

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	crdResource = schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
	apiServiceResource = schema.GroupVersionResource{
		Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices",
	}
)

// crdInfo is what the informer stores of a CustomResourceDefinition.
type crdInfo struct {
	metav1.ObjectMeta
	kind schema.GroupKind
	api  api
	// established says that the API server serves the definition.
	established bool
}

// apiServiceInfo is what the informer stores of an APIService.
type apiServiceInfo struct {
	metav1.ObjectMeta
	version schema.GroupVersion
	// aggregated says that an extension API server serves the group version.
	aggregated bool
	available  bool
}

// identity returns the metadata that an informer needs.
func identity(u *unstructured.Unstructured) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion()}
}

// transformCRD is the transform of the CustomResourceDefinition informer. It never returns an error, which would stop the
// informer.
func transformCRD(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	d := &crdInfo{ObjectMeta: identity(u), established: conditionTrue(u, "Established")}
	d.kind.Group, _, _ = unstructured.NestedString(u.Object, "spec", "group")
	// The API server serves the accepted names; the names in the spec may conflict with another definition.
	d.kind.Kind, _, _ = unstructured.NestedString(u.Object, "status", "acceptedNames", "kind")
	d.api.resource, _, _ = unstructured.NestedString(u.Object, "status", "acceptedNames", "plural")
	scope, _, _ := unstructured.NestedString(u.Object, "spec", "scope")
	d.api.namespaced = scope == "Namespaced"
	versions, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "versions")
	list, _ := versions.([]any)
	for _, v := range list {
		m, _ := v.(map[string]any)
		if served, _, _ := unstructured.NestedBool(m, "served"); !served {
			continue
		}
		if name, _, _ := unstructured.NestedString(m, "name"); name != "" {
			d.api.versions = append(d.api.versions, name)
		}
	}
	sortVersions(d.api.versions)
	d.api.conversionWebhook, d.api.generation, d.api.changedAt = ConversionWebhook(u), u.GetGeneration(), u.GetCreationTimestamp().Time
	return d, nil
}

// ConversionWebhook returns the webhook that converts between the versions of a CustomResourceDefinition, as namespace/name of its
// Service or as a URL; empty if the definition has none.
func ConversionWebhook(crd *unstructured.Unstructured) string {
	if how, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy"); how != "Webhook" {
		return ""
	}
	client, _, _ := unstructured.NestedMap(crd.Object, "spec", "conversion", "webhook", "clientConfig")
	namespace, _, _ := unstructured.NestedString(client, "service", "namespace")
	name, _, _ := unstructured.NestedString(client, "service", "name")
	if name != "" {
		return namespace + "/" + name
	}
	url, _, _ := unstructured.NestedString(client, "url")
	return cmp.Or(url, "unknown")
}

// ForeignCRDError returns the error for a CustomResourceDefinition of one of MLKeeper's kinds that has a conversion webhook. It
// belongs to another operator, since MLKeeper's definitions have no conversion webhook.
func ForeignCRDError(crd, webhook string) error {
	return fmt.Errorf("the CustomResourceDefinition %s is another operator's: its versions are converted by the webhook %s, without "+
		"which only the stored one can be read and written; stop that operator for good, then run make install, or the two "+
		"commands of docs/operations.md#definitions-of-another-operator", crd, webhook)
}

// transformAPIService is the transform of the APIService informer. It never returns an error.
func transformAPIService(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	s := &apiServiceInfo{ObjectMeta: identity(u), available: conditionTrue(u, "Available")}
	s.version.Group, _, _ = unstructured.NestedString(u.Object, "spec", "group")
	s.version.Version, _, _ = unstructured.NestedString(u.Object, "spec", "version")
	_, s.aggregated, _ = unstructured.NestedMap(u.Object, "spec", "service")
	return s, nil
}

func conditionTrue(u *unstructured.Unstructured, kind string) bool {
	list, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "conditions")
	conditions, _ := list.([]any)
	for _, c := range conditions {
		m, _ := c.(map[string]any)
		if m["type"] == kind {
			return m["status"] == "True"
		}
	}
	return false
}
