package tfserving

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
)

// canary says how the canary is. A canary that fails takes nothing from Ready: the stable track serves.
func (v *view) canary() {
	status, c, spec := &v.cr.Status, v.facts.Canary, v.cr.Spec.Canary
	before := ptr.Deref(status.Canary, v1alpha1.CanaryStatus{}).Weight
	status.Canary = nil
	if c == nil {
		meta.RemoveStatusCondition(&status.Conditions, ConditionCanaryAvailable)
		return
	}
	weight := c.Weight
	switch {
	case c.Unrouted != "":
		weight = 0
	case c.Outdated:
		weight = before
	}
	status.Canary = &v1alpha1.CanaryStatus{
		Model: spec.Model, Version: spec.Version, State: c.State, Weight: weight, Message: controller.Cut(c.Message, maxConditionMessage),
	}
	if c.Available {
		status.Canary.AvailableReplicas = bounded(c.Facts.Running.Ready)
	}
	v.set(ConditionCanaryAvailable, c.Status, c.Reason, c.Message)
}
