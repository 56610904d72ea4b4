package tfserving

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/workload"
)

// disruption renders the PodDisruptionBudget.
func (r *renderer) disruption() {
	spec := r.cr.Spec.PodDisruptionBudget
	if spec == nil {
		return
	}
	o := plan.Typed(gvkBudget, workload.Budget(r.meta(r.cr.Name), podLabels(r.cr), spec))
	o.IgnoreHealth = true
	r.add(o)
	if text := workload.Undrainable(spec, ptr.Deref(r.cr.Spec.Replicas, 1)); text != "" && r.cr.Spec.Autoscaling == nil {
		r.warn("%s", text)
	}
}

// autoscaler renders what has the replicas of the Deployment. Of the two that there may be one is there at a time: both would scale the
// Deployment, and KEDA's admission refuses a ScaledObject beside the other.
func (r *renderer) autoscaler() {
	spec := r.cr.Spec.Autoscaling
	if spec == nil {
		return
	}
	render := r.horizontal
	if spec.KEDA != nil {
		render = r.scaledObject
		if !r.facts.KEDA {
			// The ScaledObject is left out, and cannot take the place of a HorizontalPodAutoscaler.
			r.plan.KeepRecorded(r.cr.Status.Inventory.Entries, plan.Key{
				GroupKind: gvkAutoscaler.GroupKind(), Namespace: r.cr.Namespace, Name: r.cr.Name,
			})
		}
	}
	o := render()
	o.IgnoreHealth = true
	r.add(o)
	if !r.facts.UnscaledAt.IsZero() {
		r.wake(r.facts.UnscaledAt)
	}
	if paused(r.cr) {
		r.warn("spec.replicas is 0, which pauses spec.autoscaling: set it to 1 or more to serve again")
	}
}

func (r *renderer) horizontal() plan.Object {
	spec := r.cr.Spec.Autoscaling
	o := plan.Typed(gvkAutoscaler, &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: r.meta(r.cr.Name),
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
				APIVersion: gvkDeployment.GroupVersion().String(), Kind: gvkDeployment.Kind, Name: r.cr.Name,
			},
			MinReplicas: ptr.To(minReplicas(spec)), MaxReplicas: spec.MaxReplicas,
			Metrics: r.metrics(), Behavior: spec.Behavior,
		},
	})
	if r.facts.ScaledObject {
		o.Hold = "the ScaledObject to be gone, which scales the Deployment too"
	}
	return o
}

func minReplicas(spec *v1alpha1.AutoscalingSpec) int32 { return ptr.Deref(spec.MinReplicas, 1) }

// metrics are those of the spec, or the utilization of the CPU.
func (r *renderer) metrics() []autoscalingv2.MetricSpec {
	spec := r.cr.Spec.Autoscaling
	out := spec.Metrics
	if len(out) == 0 {
		out = []autoscalingv2.MetricSpec{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{
				Name: corev1.ResourceCPU,
				Target: autoscalingv2.MetricTarget{
					Type:               autoscalingv2.UtilizationMetricType,
					AverageUtilization: ptr.To(ptr.Deref(spec.TargetCPUUtilizationPercentage, defaultCPUPercent)),
				},
			},
		}}
	}
	for i := range out {
		m := out[i].Resource
		if m != nil && m.Target.Type == autoscalingv2.UtilizationMetricType {
			r.needs(string(m.Name), gvkAutoscaler.Kind)
		}
	}
	return out
}

// needs warns of a utilization that cannot be told: it is relative to what the pods request. A limit without a request is the request too.
func (r *renderer) needs(resource, who string) {
	if !asksFor(r.cr.Spec.Resources, func(name string) bool { return name == resource }) {
		r.warn("spec.autoscaling needs spec.resources.requests.%s: without it the %s cannot tell the utilization", resource, who)
	}
}

// paused says that nothing is to serve, whatever an autoscaler has set.
func paused(cr *v1alpha1.Tfserv) bool { return cr.Spec.Replicas != nil && *cr.Spec.Replicas == 0 }
