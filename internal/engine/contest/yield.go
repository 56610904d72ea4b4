package contest

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

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

// requiredKeys are the data keys without which the API server refuses a Secret of a type, even while they are empty.
var requiredKeys = map[string][]string{
	"kubernetes.io/tls":              {"tls.crt", "tls.key"},
	"kubernetes.io/dockercfg":        {".dockercfg"},
	"kubernetes.io/dockerconfigjson": {".dockerconfigjson"},
	"kubernetes.io/ssh-auth":         {"ssh-privatekey"},
	"kubernetes.io/basic-auth":       {"username", "password"},
}

// ForCreate returns a copy of desired as it is created: without the fields that others must fill (law 11), which are
// status and what the API server keeps in metadata, rules under an aggregationRule, empty or injected caBundles, and
// empty values of Secrets. Empty values that the type of a Secret requires stay, since the API server refuses a Secret
// without them, and so does spec.replicas, as the start value.
func ForCreate(desired *unstructured.Unstructured) *unstructured.Unstructured {
	return yield(desired, func(secretType, key string) bool { return slices.Contains(requiredKeys[secretType], key) })
}

// Yield returns a copy of desired as it is applied to an object that exists: without what ForCreate leaves out, and
// without anything else that others may have filled meanwhile. It comes before metadata.uid is added for the apply.
//
// live is the object as it is, or nil where it was not read; then what others may have filled is yielded. It decides
// two cases. An empty value that the type of a Secret requires stays until somebody has filled it in. And spec.replicas
// of an object that a HorizontalPodAutoscaler targets (scaled) follows the live value as long as the given manager
// alone holds it, since dropping a field that nobody else holds would reset it, and is yielded as soon as another does.
func Yield(desired, live *unstructured.Unstructured, manager string, scaled bool) *unstructured.Unstructured {
	var liveData map[string]any
	if live != nil {
		liveData = child(live.Object, "data")
	}
	out := yield(desired, func(secretType, key string) bool {
		content, ok := liveData[key]
		return ok && (content == nil || content == "") && slices.Contains(requiredKeys[secretType], key)
	})
	if scaled {
		yieldReplicas(out, live, manager)
	}
	return out
}

// yield takes out what others must fill; keep tells which empty values of a Secret stay.
func yield(desired *unstructured.Unstructured, keep func(secretType, key string) bool) *unstructured.Unstructured {
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
			yieldBundle(out, child(webhook, "clientConfig"))
		}
	case schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
		yieldBundle(out, child(out.Object, "spec", "conversion", "webhook", "clientConfig"))
	case schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}:
		yieldBundle(out, child(out.Object, "spec"))
	case schema.GroupKind{Kind: "Secret"}:
		yieldSecret(out, keep)
	}
	return out
}

// child walks down maps; nil where the way ends.
func child(content any, names ...string) map[string]any {
	m, _ := content.(map[string]any)
	for _, name := range names {
		m, _ = m[name].(map[string]any)
	}
	return m
}

// yieldBundle takes a caBundle out that holds nothing, or that an injector fills.
func yieldBundle(u *unstructured.Unstructured, holder map[string]any) {
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

// yieldSecret takes empty values out of a Secret, but for those to keep.
func yieldSecret(u *unstructured.Unstructured, keep func(secretType, key string) bool) {
	secretType, _ := u.Object["type"].(string)
	for _, field := range []string{"data", "stringData"} {
		data, ok := u.Object[field].(map[string]any)
		if !ok {
			if u.Object[field] == nil {
				delete(u.Object, field)
			}
			continue
		}
		maps.DeleteFunc(data, func(key string, value any) bool {
			return (value == nil || value == "") && !keep(secretType, key)
		})
		if len(data) == 0 {
			delete(u.Object, field)
		}
	}
}

// yieldReplicas leaves spec.replicas to a HorizontalPodAutoscaler.
func yieldReplicas(u, live *unstructured.Unstructured, manager string) {
	spec := child(u.Object, "spec")
	if _, declared := spec["replicas"]; !declared {
		return
	}
	if live == nil {
		delete(spec, "replicas")
		return
	}
	path := fieldpath.MakePathOrDie("spec", "replicas")
	mine, others := false, false
	entries := live.GetManagedFields()
	for i := range entries {
		if fieldsOf(&entries[i]).Has(path) {
			if entries[i].Manager == manager {
				mine = true
			} else {
				others = true
			}
		}
	}
	current, ok := child(live.Object, "spec")["replicas"]
	if mine && !others && ok {
		spec["replicas"] = current
		return
	}
	delete(spec, "replicas")
}

// DeclaresReplicas says that an object declares spec.replicas, which an autoscaler may hold.
func DeclaresReplicas(desired *unstructured.Unstructured) bool {
	_, declared := child(desired.Object, "spec")["replicas"]
	return declared
}

// Autoscaled says that a HorizontalPodAutoscaler wrote the replicas of the object: the controller that runs them is the
// only writer of its name that goes through the subresource scale.
func Autoscaled(live *unstructured.Unstructured) bool {
	if live == nil {
		return false
	}
	path := fieldpath.MakePathOrDie("spec", "replicas")
	return slices.ContainsFunc(live.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Subresource == "scale" && e.Manager == "kube-controller-manager" && fieldsOf(&e).Has(path)
	})
}
