package convert

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// disruption converts the PodDisruptionBudget whose selector the pods match.
func (c *conversion) disruption(labels map[string]string) {
	c.beside("PodDisruptionBudget", func(u *unstructured.Unstructured) bool {
		selector, _, _ := unstructured.NestedStringMap(u.Object, "spec", "selector", "matchLabels")
		return u.GroupVersionKind().Group == "policy" && u.GetKind() == "PodDisruptionBudget" && len(selector) > 0 && within(selector, labels)
	}, func(s *conversion, _ *unstructured.Unstructured) {
		s.left.drop("spec", "selector", "matchLabels")
		s.left.dropEqual("AlwaysAllow", "spec", "unhealthyPodEvictionPolicy")
		budget := &keeper.DisruptionSpec{}
		for field, to := range map[string]**int32{"minAvailable": &budget.MinAvailable, "maxUnavailable": &budget.MaxUnavailable} {
			if v, _ := s.left.peek("spec", field); v == nil {
				continue
			} else if _, percentage := v.(string); percentage {
				s.left.drop("spec", field)
				s.warn("spec."+field, "%v is not converted: a Tfserv has numbers of pods", v)
			} else if n, ok := s.number("spec", field); ok {
				*to = ptr.To(s.within("spec."+field, n))
			}
		}
		if !empty(budget) {
			c.out.Spec.PodDisruptionBudget = budget
		}
	})
}
