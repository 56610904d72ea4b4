package convert

import (
	"fmt"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
)

// mainContainer is the container of a Tfserv's pods.
const mainContainer = "tfs-main"

// autoscaler converts what scales a Deployment: a HorizontalPodAutoscaler, or a ScaledObject of KEDA.
func (c *conversion) autoscaler() {
	converts := map[schema.GroupKind]func(*conversion) *v1alpha1.AutoscalingSpec{
		{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: horizontal,
		{Group: "keda.sh", Kind: "ScaledObject"}:                scaled,
	}
	c.beside("autoscaler", func(u *unstructured.Unstructured) bool {
		return converts[u.GroupVersionKind().GroupKind()] != nil && c.scaledBy(u)
	}, func(s *conversion, u *unstructured.Unstructured) {
		for _, field := range []string{"name", "kind", "apiVersion"} {
			s.left.drop("spec", "scaleTargetRef", field)
		}
		c.out.Spec.Autoscaling = converts[u.GroupVersionKind().GroupKind()](s)
	})
}

// scaledBy says that the target of an autoscaler is the Deployment. KEDA's default is a Deployment.
func (c *conversion) scaledBy(u *unstructured.Unstructured) bool {
	ref, _, _ := unstructured.NestedStringMap(u.Object, "spec", "scaleTargetRef")
	return (ref["kind"] == "" || ref["kind"] == "Deployment") && ref["name"] == strings.TrimSuffix(c.out.Name, c.options.Suffix)
}

// horizontal converts a HorizontalPodAutoscaler, of autoscaling/v1 or v2.
func horizontal(s *conversion) *v1alpha1.AutoscalingSpec {
	out := &v1alpha1.AutoscalingSpec{}
	if n, ok := s.number("spec", "minReplicas"); ok {
		out.MinReplicas = ptr.To(max(s.within("spec.minReplicas", n), 1))
		if n < 1 {
			s.warn("spec.minReplicas", "%d is not converted, since a HorizontalPodAutoscaler of a Tfserv has one pod at least", n)
		}
	}
	most, ok := s.number("spec", "maxReplicas")
	if !ok {
		s.fail("spec.maxReplicas", "is missing")
	}
	out.MaxReplicas = s.within("spec.maxReplicas", most)
	if n, ok := s.number("spec", "targetCPUUtilizationPercentage"); ok {
		out.TargetCPUUtilizationPercentage = ptr.To(s.within("spec.targetCPUUtilizationPercentage", n))
	}
	if metrics, ok := decode[[]autoscalingv2.MetricSpec](s, "spec", "metrics"); ok {
		out.Metrics = *metrics
		for i := range out.Metrics {
			if m := out.Metrics[i].ContainerResource; m != nil {
				m.Container = mainContainer
			}
		}
	}
	if behavior, ok := decode[autoscalingv2.HorizontalPodAutoscalerBehavior](s, "spec", "behavior"); ok {
		out.Behavior = behavior
	}
	return out
}

// scaled converts a ScaledObject.
func scaled(s *conversion) *v1alpha1.AutoscalingSpec {
	out := &v1alpha1.AutoscalingSpec{MinReplicas: ptr.To[int32](0), MaxReplicas: 100, KEDA: &v1alpha1.KEDASpec{}}
	if n, ok := s.number("spec", "minReplicaCount"); ok {
		out.MinReplicas = ptr.To(s.within("spec.minReplicaCount", n))
	}
	if n, ok := s.number("spec", "maxReplicaCount"); ok {
		out.MaxReplicas = s.within("spec.maxReplicaCount", n)
	}
	for i := range s.left.length("spec", "triggers") {
		out.KEDA.Triggers = append(out.KEDA.Triggers, trigger(s, "spec", "triggers", fmt.Sprint(i)))
	}
	if !measurable(out.KEDA.Triggers) && *out.MinReplicas == 0 {
		s.fail("spec.minReplicaCount", "must be 1 or more for triggers of type cpu and memory, as KEDA itself has it")
	}
	for field, to := range map[string]**int32{
		"pollingInterval": &out.KEDA.PollingInterval, "cooldownPeriod": &out.KEDA.CooldownPeriod, "initialCooldownPeriod": &out.KEDA.InitialCooldownPeriod,
	} {
		if n, ok := decode[int32](s, "spec", field); ok {
			*to = n
		}
	}
	if fallback, ok := decode[v1alpha1.KEDAFallback](s, "spec", "fallback"); ok {
		out.KEDA.Fallback = fallback
	}
	config := []string{"spec", "advanced", "horizontalPodAutoscalerConfig"}
	if behavior, ok := decode[autoscalingv2.HorizontalPodAutoscalerBehavior](s, append(slices.Clone(config), "behavior")...); ok {
		out.Behavior = behavior
	}
	s.left.dropEqual(false, "spec", "advanced", "restoreToOriginalReplicaCount")
	return out
}

// trigger converts a trigger without what a Tfserv does not lend: credentials of the whole cluster, and KEDA's own identity.
func trigger(s *conversion, path ...string) v1alpha1.KEDATrigger {
	at := func(fields ...string) []string { return append(slices.Clone(path), fields...) }
	out := v1alpha1.KEDATrigger{
		Type: s.text(at("type")...), Name: s.text(at("name")...), MetricType: autoscalingv2.MetricTargetType(s.text(at("metricType")...)),
		Metadata: map[string]v1alpha1.KEDAValue{},
	}
	if cached, ok := decode[bool](s, at("useCachedMetrics")...); ok {
		out.UseCachedMetrics = *cached
	}
	if metadata, ok := decode[map[string]v1alpha1.KEDAValue](s, at("metadata")...); ok && *metadata != nil {
		out.Metadata = *metadata
	}
	for _, lent := range []string{"identityOwner", "credentialsFromEnvFile"} {
		if value, given := out.Metadata[lent]; given && (lent != "identityOwner" || value != "pod") {
			delete(out.Metadata, lent)
			s.warn(join(at("metadata", lent)), "%q is not converted: name a TriggerAuthentication of the namespace", value)
		}
	}
	name, kind := s.text(at("authenticationRef", "name")...), s.text(at("authenticationRef", "kind")...)
	switch {
	case kind != "" && kind != "TriggerAuthentication":
		s.warn(join(at("authenticationRef")), "%s %s is not converted: a Tfserv can name a TriggerAuthentication of its namespace", kind, name)
	case name != "":
		out.AuthenticationRef = &v1alpha1.KEDAAuthenticationRef{Name: name}
	}
	return out
}
