package tfserving

import (
	"k8s.io/utils/ptr"

	"mlkeeper.dev/internal/engine/plan"
)

// replicas are left to an autoscaler where there is one; what it has not seen yet starts with its minimum. A HorizontalPodAutoscaler leaves
// 0 as it is, which is how it is paused.
func (r *renderer) replicas() *int32 {
	declared := ptr.Deref(r.cr.Spec.Replicas, 1)
	if a := r.cr.Spec.Autoscaling; a != nil && !paused(r.cr) {
		return ptr.To(min(max(declared, minReplicas(a)), a.MaxReplicas))
	}
	return ptr.To(declared)
}

// who says who has the replicas of the Deployment, and whether an autoscaler is to be recorded there. When spec.autoscaling is taken out,
// the record goes with the last autoscaler of ours: that write declares spec.replicas again, whoever has written them since.
func (r *renderer) who() (who plan.Replicas, autoscaled bool) {
	spec := r.cr.Spec.Autoscaling
	autoscaled = spec != nil || r.facts.Autoscaler || r.facts.ScaledObject
	switch {
	case paused(r.cr):
		return plan.ReplicasDeclared, autoscaled
	case spec != nil && (spec.KEDA == nil || !r.facts.KEDA):
		return plan.ReplicasObserved, autoscaled
	case autoscaled:
		// KEDA scales to zero and back by itself, and has no HorizontalPodAutoscaler while it is paused.
		return plan.ReplicasLeft, autoscaled
	case r.facts.Running != nil && r.facts.Running.Autoscaled:
		return plan.ReplicasDeclared, autoscaled
	}
	return plan.ReplicasObserved, autoscaled
}
