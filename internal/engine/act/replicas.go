package act

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"mlkeeper.dev/internal/engine/fieldownership"
	"mlkeeper.dev/internal/engine/listing"
	"mlkeeper.dev/internal/engine/plan"
)

var autoscalersResource = schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}

// LeavesReplicas says that an apply leaves spec.replicas of a live object as they are. Whether an autoscaler that has written them is still
// there can only be read: its entry in managedFields stays when it is gone. It is asked for only where the number would change, which is
// before a write and nowhere else. Who must not list HorizontalPodAutoscalers leaves the replicas, and so does who finds too many.
func LeavesReplicas(ctx context.Context, client dynamic.Interface, object plan.Object, live *unstructured.Unstructured) bool {
	switch object.Replicas {
	case plan.ReplicasDeclared:
		return false
	case plan.ReplicasLeft:
		return true
	}
	if !fieldownership.Autoscaled(live) {
		return false
	}
	declared, found, _ := unstructured.NestedFieldNoCopy(object.Desired.Object, "spec", "replicas")
	current, _, _ := unstructured.NestedFieldNoCopy(live.Object, "spec", "replicas")
	return !found || declared == current || targeted(ctx, client, live)
}

// targeted says that a HorizontalPodAutoscaler of the namespace scales the object.
func targeted(ctx context.Context, client dynamic.Interface, live *unstructured.Unstructured) bool {
	found := false
	autoscalers := client.Resource(autoscalersResource).Namespace(live.GetNamespace())
	err := listing.Each(ctx, autoscalers, "", listing.MaxListed, func(u *unstructured.Unstructured) bool {
		found = targets(u, live)
		return !found
	})
	return found || err != nil
}

// targets compares the group, kind and name of the target; a HorizontalPodAutoscaler may name another version of the API.
func targets(autoscaler, live *unstructured.Unstructured) bool {
	ref, _, _ := unstructured.NestedStringMap(autoscaler.Object, "spec", "scaleTargetRef")
	kind := schema.FromAPIVersionAndKind(ref["apiVersion"], ref["kind"]).GroupKind()
	return kind == live.GroupVersionKind().GroupKind() && ref["name"] == live.GetName()
}
