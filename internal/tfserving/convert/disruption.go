package convert

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// disruption converts the PodDisruptionBudget whose selector the pods match. Kubernetes evicts no pod that two budgets select, so that there is
// one at most.
func (c *conversion) disruption(labels map[string]string) {
	for _, u := range c.others {
		if u.GroupVersionKind().Group != "policy" || u.GetKind() != "PodDisruptionBudget" || u.GetNamespace() != c.out.Namespace || c.used[u] {
			continue
		}
		selector, _, _ := unstructured.NestedStringMap(u.Object, "spec", "selector", "matchLabels")
		if len(selector) == 0 || !within(selector, labels) || c.out.Spec.PodDisruptionBudget != nil {
			continue
		}
		c.used[u] = true
		s := newConversion(c.result, u, c.options)
		s.left.drop("spec", "selector", "matchLabels")
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
		for _, path := range s.left.paths() {
			s.warn(path, noCounterpart)
		}
		c.failed = c.failed || s.failed
	}
}
