package tfserving

import (
	"cmp"

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

// autoscaler renders the HorizontalPodAutoscaler, to which the replicas of the Deployment are left.
func (r *renderer) autoscaler() {
	spec := r.cr.Spec.Autoscaling
	if spec == nil {
		return
	}
	o := plan.Typed(gvkAutoscaler, &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: r.meta(r.cr.Name),
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
				APIVersion: gvkDeployment.GroupVersion().String(), Kind: gvkDeployment.Kind, Name: r.cr.Name,
			},
			MinReplicas: ptr.To(ptr.Deref(spec.MinReplicas, 1)), MaxReplicas: spec.MaxReplicas,
			Metrics: r.metrics(), Behavior: spec.Behavior,
		},
	})
	o.IgnoreHealth = true
	r.add(o)
	if paused(r.cr) {
		r.warn("spec.replicas is 0, which pauses spec.autoscaling: set it to 1 or more to serve again")
	}
}

// metrics are those of the spec, or the utilization of the CPU. A utilization is relative to what the pods request.
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
		if m == nil || m.Target.Type != autoscalingv2.UtilizationMetricType {
			continue
		}
		// A limit without a request is the request too.
		if !asksFor(r.cr.Spec.Resources, func(name string) bool { return name == string(m.Name) }) {
			r.warn("spec.autoscaling needs spec.resources.requests.%s: without it the HorizontalPodAutoscaler cannot tell the utilization", m.Name)
		}
	}
	return out
}

// paused says that nothing is to serve, whatever an autoscaler has set.
func paused(cr *v1alpha1.Tfserv) bool { return cr.Spec.Replicas != nil && *cr.Spec.Replicas == 0 }

// monitor renders the ServiceMonitor.
func (r *renderer) monitor() {
	spec := r.cr.Spec.Monitoring
	if spec == nil {
		return
	}
	r.add(plan.Foreign(gvkServiceMonitor, r.cr.Namespace, r.cr.Name, spec.Labels, map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{selectorLabel: r.cr.Name}},
		"endpoints": []any{map[string]any{
			"port": restPortName, "path": cmp.Or(spec.Path, defaultMetrics), "interval": cmp.Or(spec.Interval, defaultInterval),
		}},
	}))
}
