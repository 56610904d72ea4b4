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

// replicasMode says who has the replicas of the Deployment, and which kind of autoscaler is to be recorded there; empty for none. When
// spec.autoscaling is taken out, the record goes with the last autoscaler of ours. That write declares spec.replicas again, unless a
// HorizontalPodAutoscaler of somebody else has them by then. KEDA's own, which is deleted some time after the ScaledObject, does not count.
func (r *renderer) replicasMode() (mode plan.Replicas, autoscaled string) {
	spec, keda := r.cr.Spec.Autoscaling, false
	recorded := ptr.Deref(r.facts.Running, Running{}).Autoscaled
	switch {
	case spec != nil && spec.KEDA != nil:
		autoscaled, keda = gvkScaledObject.Kind, r.facts.KEDA
	case spec != nil:
		autoscaled = gvkAutoscaler.Kind
	case r.facts.Autoscaler || r.facts.ScaledObject:
		autoscaled = recorded
	}
	switch {
	case paused(r.cr), autoscaled == "" && recorded == gvkScaledObject.Kind:
		return plan.ReplicasDeclared, autoscaled
	case keda, spec == nil && autoscaled != "":
		// KEDA scales to zero and back by itself, and has no HorizontalPodAutoscaler while it is paused.
		return plan.ReplicasLeft, autoscaled
	}
	return plan.ReplicasObserved, autoscaled
}
