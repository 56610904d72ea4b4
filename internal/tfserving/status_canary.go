package tfserving

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
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
	weight, by := c.Weight, v.routing()
	switch {
	case by.unrouted != "":
		weight = 0
	case by.outdated:
		weight = before
	}
	message := c.told(spec.Mode, by)
	status.Canary = &v1alpha1.CanaryStatus{
		Model: spec.Model, Version: spec.Version, State: c.State, Weight: weight, Message: controller.Cut(message, maxConditionMessage),
	}
	if c.Available {
		status.Canary.AvailableReplicas = bounded(c.Facts.Running.Ready)
	}
	v.set(ConditionCanaryAvailable, c.Status, c.Reason, message)
}

// routing is what Gateways have made of the routes.
type routing struct {
	// unrouted says why no Gateway leads requests to the canary; empty where one does.
	unrouted string
	// outdated says that those which accepted a route have not read it as it is now.
	outdated bool
}

// routing looks at the routes as this reconcile leaves them: one that it has written is read by no Gateway yet.
func (v *view) routing() routing {
	out := routing{unrouted: "There is no route that splits the requests: look at status.skipped."}
	outdated := false
	for _, gvk := range routes {
		route := v.seen.Objects[plan.Key{GroupKind: gvk.GroupKind(), Namespace: v.cr.Namespace, Name: v.cr.Name}].Observed
		if route == nil {
			continue
		}
		a := acceptanceOf(route.Stripped())
		if a.current {
			return routing{}
		}
		outdated = outdated || a.before
		out.unrouted = fmt.Sprintf("No Gateway has accepted the %s %s%s: look at its status.parents.", gvk.Kind, v.cr.Name, a.refusal)
	}
	if outdated {
		return routing{outdated: true}
	}
	return out
}
