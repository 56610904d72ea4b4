package catalog

import (
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
	return d, nil
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
