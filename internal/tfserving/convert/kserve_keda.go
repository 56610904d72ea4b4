package convert

import (
	"cmp"
	"fmt"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/utils/ptr"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
)

// kserveScaling is where an InferenceService has what scales it by KEDA, or by a HorizontalPodAutoscaler.
var kserveScaling = []string{"spec", "predictor", "autoScaling"}

// kserveTriggers converts the metrics of an InferenceService that KEDA scales, as KServe makes triggers of them
// (v0.17.0 reconcilers/keda/keda_reconciler.go, getKedaMetrics); nil where another autoscaler does, or nothing can be converted.
func (c *conversion) kserveTriggers() []v1alpha1.KEDATrigger {
	class := c.annotation("serving.kserve.io/autoscalerClass")
	if class != "keda" {
		if class != "" && class != "hpa" {
			c.warn("metadata.annotations", "the autoscaler %q is not converted", class)
		}
		return nil
	}
	var out []v1alpha1.KEDATrigger
	metrics := append(slices.Clone(kserveScaling), "metrics")
	for i := range c.left.length(metrics...) {
		at := func(fields ...string) []string {
			return append(append(slices.Clone(metrics), fmt.Sprint(i)), fields...)
		}
		switch kind := c.text(at("type")...); kind {
		case "Resource":
			out = append(out, c.resourceTrigger(at))
		case "External":
			out = append(out, c.externalTrigger(at))
		default:
			c.left.drop(at()...)
			c.warn(join(at()), "a metric of type %q is not converted: KServe asks an OpenTelemetry collector of its own for it", kind)
		}
	}
	return out
}

// resourceTrigger is about what pods use of a resource.
func (c *conversion) resourceTrigger(at func(...string) []string) v1alpha1.KEDATrigger {
	kind := cmp.Or(c.text(at("resource", "target", "type")...), string(autoscalingv2.UtilizationMetricType))
	field := map[string]string{"AverageValue": "averageValue", "Value": "value"}[kind]
	value := c.quantity(at("resource", "target", cmp.Or(field, "averageUtilization"))...)
	return v1alpha1.KEDATrigger{
		Type: c.text(at("resource", "name")...), MetricType: autoscalingv2.MetricTargetType(kind),
		Metadata: map[string]v1alpha1.KEDAValue{"value": v1alpha1.KEDAValue(cmp.Or(value, "80"))},
	}
}

// externalTrigger asks Prometheus or Graphite.
func (c *conversion) externalTrigger(at func(...string) []string) v1alpha1.KEDATrigger {
	out := v1alpha1.KEDATrigger{Type: c.text(at("external", "metric", "backend")...), Metadata: map[string]v1alpha1.KEDAValue{}}
	for name, value := range map[string]string{
		"serverAddress": c.text(at("external", "metric", "serverAddress")...),
		"query":         c.text(at("external", "metric", "query")...),
		"namespace":     c.text(at("external", "metric", "namespace")...),
		"authModes":     c.text(at("external", "authenticationRef", "authModes")...),
		"threshold":     cmp.Or(c.quantity(at("external", "target", "value")...), "0"),
	} {
		if value != "" {
			out.Metadata[name] = v1alpha1.KEDAValue(value)
		}
	}
	c.left.drop(at("external", "target", "type")...) // KServe does not hand it on.
	if name := c.text(at("external", "authenticationRef", "authenticationRef", "name")...); name != "" {
		out.AuthenticationRef = &v1alpha1.KEDAAuthenticationRef{Name: name}
	}
	return out
}

// quantity takes a number out that may be a text.
func (c *conversion) quantity(path ...string) string {
	value, found := c.left.take(path...)
	if !found {
		return ""
	}
	return fmt.Sprint(value)
}

// kedaScale has KEDA scale between two numbers of pods.
func (c *conversion) kedaScale(triggers []v1alpha1.KEDATrigger, least, most int32) {
	a := &v1alpha1.AutoscalingSpec{MinReplicas: &least, MaxReplicas: max(most, least, 1), KEDA: &v1alpha1.KEDASpec{Triggers: triggers}}
	if behavior, ok := decode[autoscalingv2.HorizontalPodAutoscalerBehavior](c, append(slices.Clone(kserveScaling), "behavior")...); ok {
		a.Behavior = behavior
	}
	c.out.Spec.Autoscaling, c.out.Spec.Replicas = a, ptr.To(max(least, 1))
}

// measurable says that a trigger can be active without a pod.
func measurable(triggers []v1alpha1.KEDATrigger) bool {
	return slices.ContainsFunc(triggers, func(t v1alpha1.KEDATrigger) bool { return t.Type != "cpu" && t.Type != "memory" })
}
