package fieldownership

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

var secretKind = schema.GroupKind{Kind: "Secret"}

// serverFields are the fields of metadata that only the API server fills.
var serverFields = []string{
	"managedFields", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
	"deletionGracePeriodSeconds", "selfLink",
}

// injectors are the annotations by which others promise to fill the caBundle of an object.
var injectors = []string{
	"cert-manager.io/inject-ca-from", "cert-manager.io/inject-ca-from-secret", "cert-manager.io/inject-apiserver-ca",
	"service.beta.openshift.io/inject-cabundle", "service.alpha.openshift.io/inject-cabundle",
}

// ForCreate returns a copy of desired as it is created: without what the API server or an injector fills whatever is
// declared (invariant 11), which are status and what the API server keeps in metadata, rules under an aggregationRule, and
// empty or injected caBundles. Everything else is created as it is declared, an empty value of a Secret too: what reads
// the key does not start without it. The stringData of a Secret goes to its data, as it does in the API server, since
// ownership of stringData says nothing about the data that it becomes.
func ForCreate(desired *unstructured.Unstructured) *unstructured.Unstructured {
	out := desired.DeepCopy()
	delete(out.Object, "status")
	if metadata, ok := out.Object["metadata"].(map[string]any); ok {
		for _, name := range serverFields {
			delete(metadata, name)
		}
	}
	switch out.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:
		if out.Object["aggregationRule"] != nil {
			delete(out.Object, "rules")
		}
	case schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"},
		schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}:
		webhooks, _ := out.Object["webhooks"].([]any)
		for _, webhook := range webhooks {
			dropBundle(out, child(webhook, "clientConfig"))
		}
	case schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
		dropBundle(out, child(out.Object, "spec", "conversion", "webhook", "clientConfig"))
	case schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}:
		dropBundle(out, child(out.Object, "spec"))
	case secretKind:
		encodeSecret(out)
	}
	return out
}

// DropExternallyManaged returns a copy of desired as it is applied to live: what ForCreate returns, without the fields that another
// manager than the given ones fills. managedFields are the evidence: an empty value of a Secret is ceded where another
// manager holds the key with a value in it. spec.replicas of an object that an autoscaler has (scaled)
// follows the live value as long as nobody else holds it, since dropping a field that nobody else holds would reset it,
// and is ceded as soon as another does.
func DropExternallyManaged(desired, live *unstructured.Unstructured, managers sets.Set[string], scaled bool) *unstructured.Unstructured {
	out := ForCreate(desired)
	if live == nil {
		return out
	}
	if out.GroupVersionKind().GroupKind() == secretKind {
		dropFilled(out, live, managers)
	}
	if scaled {
		dropReplicas(out, live, managers)
	}
	return out
}

// DependsOnLive says that DropExternallyManaged has to see the live object: it declares spec.replicas, which an autoscaler may hold, or
// an empty value of a Secret, which another manager may have filled.
func DependsOnLive(desired *unstructured.Unstructured) bool {
	if _, declared := child(desired.Object, "spec")["replicas"]; declared {
		return true
	}
	if desired.GroupVersionKind().GroupKind() != secretKind {
		return false
	}
	for _, field := range []string{"data", "stringData"} {
		for _, value := range child(desired.Object, field) {
			if empty(value) {
				return true
			}
		}
	}
	return false
}

// child walks down maps; nil where the way ends.
func child(content any, names ...string) map[string]any {
	m, _ := content.(map[string]any)
	for _, name := range names {
		m, _ = m[name].(map[string]any)
	}
	return m
}

// dropBundle takes a caBundle out that holds nothing, or that an injector fills.
func dropBundle(u *unstructured.Unstructured, holder map[string]any) {
	bundle, ok := holder["caBundle"]
	if !ok {
		return
	}
	annotations := u.GetAnnotations()
	injected := slices.ContainsFunc(injectors, func(name string) bool { return annotations[name] != "" })
	if injected || blank(bundle) {
		delete(holder, "caBundle")
	}
}

// blank says that a base64 value holds nothing but white space, such as the placeholder "Cg==".
func blank(encoded any) bool {
	if encoded == nil {
		return true
	}
	text, ok := encoded.(string)
	if !ok {
		return false
	}
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	return err == nil && strings.TrimSpace(string(decoded)) == ""
}

// empty says that a value of a Secret holds nothing; the API server reads null as an empty value.
func empty(value any) bool { return value == nil || value == "" }

// encodeSecret puts all content of a Secret where the API server puts it: in data, in base64. An absent data holds the
// same as an empty one, and claims nothing.
func encodeSecret(u *unstructured.Unstructured) {
	data, isMap := u.Object["data"].(map[string]any)
	plain, isPlain := u.Object["stringData"].(map[string]any)
	if u.Object["data"] != nil && !isMap || u.Object["stringData"] != nil && !isPlain {
		return // The API server says what is wrong with it.
	}
	if data == nil {
		data = map[string]any{}
	}
	for key, value := range data {
		if empty(value) {
			data[key] = ""
		}
	}
	for key, value := range plain {
		text, isText := value.(string)
		if value != nil && !isText {
			return
		}
		data[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	delete(u.Object, "stringData")
	u.Object["data"] = data
	if len(data) == 0 {
		delete(u.Object, "data")
	}
}

// dropFilled leaves the empty values of a Secret to the managers that have filled them.
func dropFilled(u, live *unstructured.Unstructured, managers sets.Set[string]) {
	data, filled := child(u.Object, "data"), child(live.Object, "data")
	maps.DeleteFunc(data, func(key string, value any) bool {
		if !empty(value) || empty(filled[key]) {
			return false
		}
		_, others := holders(live, fieldpath.MakePathOrDie("data", key), managers)
		return others
	})
	if data != nil && len(data) == 0 {
		delete(u.Object, "data")
	}
}

// holders says whether the given managers hold a field, and whether others do.
func holders(live *unstructured.Unstructured, path fieldpath.Path, managers sets.Set[string]) (mine, others bool) {
	entries := live.GetManagedFields()
	for i := range entries {
		if fieldsOf(&entries[i]).Has(path) {
			if managers.Has(entries[i].Manager) {
				mine = true
			} else {
				others = true
			}
		}
	}
	return mine, others
}

// dropReplicas leaves spec.replicas to an autoscaler.
func dropReplicas(u, live *unstructured.Unstructured, managers sets.Set[string]) {
	spec := child(u.Object, "spec")
	if _, declared := spec["replicas"]; !declared {
		return
	}
	mine, others := holders(live, fieldpath.MakePathOrDie("spec", "replicas"), managers)
	current, ok := child(live.Object, "spec")["replicas"]
	if mine && !others && ok {
		spec["replicas"] = current
		return
	}
	delete(spec, "replicas")
}

// autoscalers are the field managers of what writes replicas through the subresource scale by metrics: the controller of
// HorizontalPodAutoscalers, and KEDA, which scales to zero and back by itself.
var autoscalers = sets.New("kube-controller-manager", "keda")

// Autoscaled says that an autoscaler wrote the replicas of the object: no other writer of these names goes through the subresource scale.
func Autoscaled(live *unstructured.Unstructured) bool {
	if live == nil {
		return false
	}
	path := fieldpath.MakePathOrDie("spec", "replicas")
	return slices.ContainsFunc(live.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Subresource == "scale" && autoscalers.Has(e.Manager) && fieldsOf(&e).Has(path)
	})
}
