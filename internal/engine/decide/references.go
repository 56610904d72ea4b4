package decide

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/plan"
)

// HoldReferrers has workloads wait whose pods refer by name to an object of the plan that belongs to another owner: the pods would use what
// they were never given, and a kubelet changes the group of the files on a claim. It holds back the creation and a change, which may bring
// the reference. What runs as it is declared stays, and is repaired.
func HoldReferrers(actions []Action) {
	var taken []plan.Key
	for _, a := range actions {
		if a.Verb == Conflict || a.Verb == Wait && a.Reason == ReasonForeignOwner {
			taken = append(taken, a.Key)
		}
	}
	if len(taken) == 0 {
		return
	}
	for i := range actions {
		a := &actions[i]
		if !workloads[a.Key.GroupKind] || a.Verb != Create && (a.Verb != Apply || a.Reason != ReasonChanged) {
			continue
		}
		refers := references(a.Object.Desired)
		for _, key := range taken {
			if refers[key] {
				a.Verb, a.Reason, a.Detail = Wait, ReasonDependency, key.String()+", which belongs to another owner, to be free"
				break
			}
		}
	}
}

// namingFields are the fields of a pod whose text is the name of an object, with its kind.
var namingFields = map[string]string{
	"serviceAccountName": "ServiceAccount", "serviceAccount": "ServiceAccount",
	"claimName": "PersistentVolumeClaim", "secretName": "Secret",
}

// referringFields are those that hold the name of an object in a field name, alone or in a list.
var referringFields = map[string]string{
	"secret": "Secret", "secretRef": "Secret", "secretKeyRef": "Secret", "nodePublishSecretRef": "Secret", "imagePullSecrets": "Secret",
	"configMap": "ConfigMap", "configMapRef": "ConfigMap", "configMapKeyRef": "ConfigMap",
}

// references are the objects in its namespace that the pods of a workload refer to by name. They are found by the names of the fields, so
// that every type of volume counts.
func references(workload *unstructured.Unstructured) map[plan.Key]bool {
	path := []string{"spec", "template", "spec"}
	switch workload.GetKind() {
	case "Pod":
		path = []string{"spec"}
	case "CronJob":
		path = []string{"spec", "jobTemplate", "spec", "template", "spec"}
	}
	out := map[plan.Key]bool{}
	add := func(kind string, name any) {
		if text, ok := name.(string); ok && text != "" {
			out[plan.Key{GroupKind: schema.GroupKind{Kind: kind}, Namespace: workload.GetNamespace(), Name: text}] = true
		}
	}
	pod, _, _ := unstructured.NestedFieldNoCopy(workload.Object, path...)
	eachField(pod, func(field string, value any) {
		if kind := namingFields[field]; kind != "" {
			add(kind, value)
		}
		kind := referringFields[field]
		if kind == "" {
			return
		}
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		for _, item := range list {
			if ref, ok := item.(map[string]any); ok {
				add(kind, ref["name"])
			}
		}
	})
	return out
}

// eachField calls f for every field within a value.
func eachField(value any, f func(field string, value any)) {
	switch v := value.(type) {
	case map[string]any:
		for field, inner := range v {
			f(field, inner)
			eachField(inner, f)
		}
	case []any:
		for _, inner := range v {
			eachField(inner, f)
		}
	}
}
