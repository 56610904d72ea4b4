package catalog

import (
	"cmp"
	"fmt"
	"time"

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

// definition is what is kept of a CustomResourceDefinition.
type definition struct {
	metav1.ObjectMeta
	kind schema.GroupKind
	api  api
	// established says that the API server serves it, since that it does since then, in whole seconds.
	established bool
	since       time.Time
}

// service is what is kept of an APIService.
type service struct {
	metav1.ObjectMeta
	version schema.GroupVersion
	// aggregated says that another server than the API server itself answers.
	aggregated bool
	available  bool
}

// identity keeps what an informer needs to know of an object.
func identity(u *unstructured.Unstructured) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion()}
}

// reduceDefinition is the transform of the CustomResourceDefinition watch. It never fails: an informer whose transform
// fails is stuck.
func reduceDefinition(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	d := &definition{ObjectMeta: identity(u), established: conditionTrue(u, "Established")}
	if d.established {
		d.since, _ = time.Parse(time.RFC3339, conditionOf(u, "Established", "lastTransitionTime"))
	}
	d.kind.Group, _, _ = unstructured.NestedString(u.Object, "spec", "group")
	// The accepted names are the ones that are served; the names in spec may still be in conflict.
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
	d.api.converter = Converter(u)
	return d, nil
}

// Converter is the webhook that converts between the versions of a CustomResourceDefinition, as namespace/name of its
// Service or as a URL; empty where the API server does it by itself.
func Converter(crd *unstructured.Unstructured) string {
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

// Foreign is the error of a definition of MLKeeper's whose versions a webhook converts: it is another operator's, since
// MLKeeper's need none.
func Foreign(definition, converter string) error {
	return fmt.Errorf("the CustomResourceDefinition %s is another operator's: its versions are converted by the webhook %s, without "+
		"which only the stored one can be read and written; stop that operator for good, then run make install FORCE=1, or the two "+
		"commands of docs/operations.md#definitions-of-another-operator", definition, converter)
}

// reduceService is the transform of the APIService watch. It never fails.
func reduceService(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	s := &service{ObjectMeta: identity(u), available: conditionTrue(u, "Available")}
	s.version.Group, _, _ = unstructured.NestedString(u.Object, "spec", "group")
	s.version.Version, _, _ = unstructured.NestedString(u.Object, "spec", "version")
	_, s.aggregated, _ = unstructured.NestedMap(u.Object, "spec", "service")
	return s, nil
}

func conditionTrue(u *unstructured.Unstructured, kind string) bool {
	return conditionOf(u, kind, "status") == "True"
}

// conditionOf is a field of a condition; empty where there is none.
func conditionOf(u *unstructured.Unstructured, kind, field string) string {
	list, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "conditions")
	conditions, _ := list.([]any)
	for _, c := range conditions {
		m, _ := c.(map[string]any)
		if m["type"] == kind {
			value, _ := m[field].(string)
			return value
		}
	}
	return ""
}
