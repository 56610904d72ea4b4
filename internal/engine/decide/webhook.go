package decide

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
)

// ServerOf names what a webhook configuration that does not exist yet waits for, or returns "": the Service that it
// calls and the workloads behind that, as far as the same plan has them. Made before its server answers, it would refuse
// the very objects that the server consists of (invariant 14).
func ServerOf(stages []Stage, item Item) string {
	if item.Observed != nil || item.Key.Group != "admissionregistration.k8s.io" {
		return ""
	}
	for _, service := range Called(item.Desired) {
		if waitsFor := notServing(stages, service); waitsFor != "" {
			return waitsFor
		}
	}
	return ""
}

// Called are the Services by which the API server calls what a webhook configuration or an APIService names, one for each
// webhook. One without a name stands for what is no Service, such as a URL.
func Called(u *unstructured.Unstructured) []plan.Key {
	var out []plan.Key
	add := func(content map[string]any, path ...string) {
		service, _, _ := unstructured.NestedMap(content, path...)
		namespace, _ := service["namespace"].(string)
		name, _ := service["name"].(string)
		out = append(out, plan.Key{GroupKind: schema.GroupKind{Kind: "Service"}, Namespace: namespace, Name: name})
	}
	hooks, found, _ := unstructured.NestedSlice(u.Object, "webhooks")
	if !found {
		add(u.Object, "spec", "service")
	}
	for _, hook := range hooks {
		content, _ := hook.(map[string]any)
		add(content, "clientConfig", "service")
	}
	return out
}

// notServing names what keeps a Service of the plan from answering.
func notServing(stages []Stage, service plan.Key) string {
	found := find(stages, func(i Item) bool { return i.Key == service })
	if len(found) == 0 {
		return "" // Somebody else's, of which nothing is known.
	}
	if found[0].Observed == nil {
		return service.String() + " to exist"
	}
	for _, workload := range behind(stages, found[0]) {
		if workload.Observed == nil || workload.Observed.AppliedHash() != workload.Digest ||
			workload.Observed.Health.Status != health.Current {
			return workload.Key.String() + " to be ready"
		}
	}
	return ""
}

// behind are the workloads of the plan whose pods a Service selects.
func behind(stages []Stage, service Item) []Item {
	selector, _, _ := unstructured.NestedStringMap(service.Desired.Object, "spec", "selector")
	if len(selector) == 0 {
		return nil
	}
	return find(stages, func(i Item) bool {
		pod, _, _ := unstructured.NestedStringMap(i.Desired.Object, "spec", "template", "metadata", "labels")
		return i.Key.Group == "apps" && i.Key.Namespace == service.Key.Namespace &&
			labels.SelectorFromSet(selector).Matches(labels.Set(pod))
	})
}

func find(stages []Stage, match func(Item) bool) []Item {
	var out []Item
	for _, stage := range stages {
		for _, item := range stage.Items {
			if match(item) {
				out = append(out, item)
			}
		}
	}
	return out
}
