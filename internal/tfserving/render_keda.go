package tfserving

import (
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

// pausedAnnotation has KEDA scale to the number that it says and then leave the replicas (keda.sh/docs/latest/reference/scaledobject-spec).
const pausedAnnotation = "autoscaling.keda.sh/paused-replicas"

// scaledObject renders the ScaledObject.
func (r *renderer) scaledObject() plan.Object {
	spec := r.cr.Spec.Autoscaling
	advanced := map[string]any{
		// KEDA's own name would be keda-hpa- before the name, which is too long for some that a Tfserv may have.
		"name": r.cr.Name + "-keda",
	}
	if spec.Behavior != nil {
		advanced["behavior"] = fieldsOf(spec.Behavior)
	}
	content := fieldsOf(spec.KEDA)
	content["scaleTargetRef"] = map[string]any{
		"apiVersion": gvkDeployment.GroupVersion().String(), "kind": gvkDeployment.Kind, "name": r.cr.Name, "envSourceContainerName": mainContainer,
	}
	content["minReplicaCount"], content["maxReplicaCount"] = int64(minReplicas(spec)), int64(spec.MaxReplicas)
	content["advanced"] = map[string]any{"horizontalPodAutoscalerConfig": advanced}
	o := plan.Foreign(gvkScaledObject, r.cr.Namespace, r.cr.Name, podLabels(r.cr), content)
	if paused(r.cr) {
		o.Desired.SetAnnotations(map[string]string{pausedAnnotation: "0"})
	}
	if r.facts.Autoscaler {
		o.Hold = "the HorizontalPodAutoscaler to be gone, beside which KEDA refuses it"
	}
	for _, t := range spec.KEDA.Triggers {
		if t.Type == "cpu" || t.Type == "memory" {
			r.needs(t.Type, gvkScaledObject.Kind)
		}
	}
	return o
}

// fieldsOf turns a part of the spec, which has the names of KEDA's own fields, into what an object holds.
func fieldsOf[T v1alpha1.KEDASpec | autoscalingv2.HorizontalPodAutoscalerBehavior](part *T) map[string]any {
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(part)
	if err != nil {
		panic(fmt.Sprintf("bug: %T does not convert: %v", part, err)) // Plain API types always convert, as in plan.Typed.
	}
	return out
}
