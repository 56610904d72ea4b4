package tfserving

import (
	"strings"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/workload"
)

// canary renders the canary track: its objects have a name of their own, and what they lack takes nothing from Ready.
func (r *renderer) canary() {
	c := r.facts.Canary
	if c == nil || !c.There {
		r.ending()
		return
	}
	t := &renderer{settings: r.settings, cr: canaryOf(r.cr), facts: c.Facts}
	t.plan.Inputs = inputsOf(t.facts)
	t.service()
	if c.Available {
		t.objects[0].Desired.SetAnnotations(map[string]string{availableAnnotation: versionOf(r.cr.Spec.Canary)})
	}
	if len(r.plan.Problems) == 0 {
		t.configuration()
		t.deployment()
		t.monitor()
		t.keep()
		r.canaryWarnings()
	}
	for _, o := range t.objects {
		o.IgnoreHealth = true
		r.add(o)
	}
	r.plan.Keep = append(r.plan.Keep, t.plan.Keep...)
}

// ending keeps the servers of a canary that has ended for as long as Gateways may send them requests.
func (r *renderer) ending() {
	if r.facts.Ending.IsZero() {
		return
	}
	r.wake(r.facts.Ending)
	track := canaryNamed(r.cr)
	for _, e := range r.cr.Status.Inventory.Entries {
		k := plan.KeyOfEntry(e)
		config := k.GroupKind == gvkConfigMap.GroupKind() && strings.HasPrefix(k.Name, configPrefix(track))
		servers := k.GroupKind == gvkDeployment.GroupKind() && k.Name == track.Name
		service := k.GroupKind == gvkService.GroupKind() && k.Name == serviceName(track)
		if config || servers || service {
			r.plan.Keep = append(r.plan.Keep, k)
		}
	}
}

// split is the share of the canary in the routes; nil while it gets none. By HTTP it is a share of the requests for its model that name
// neither a version nor a label, since its servers have no other version.
func (r *renderer) split() *workload.Split {
	c, spec := r.facts.Canary, r.cr.Spec.Canary
	if c == nil || c.Weight == 0 {
		return nil
	}
	out := &workload.Split{Service: serviceName(canaryNamed(r.cr)), Percent: int64(c.Weight), Mirror: spec.Mode == v1alpha1.CanaryShadow}
	for _, method := range []string{"predict", "classify", "regress"} {
		out.Paths = append(out.Paths, "/v1/models/"+spec.Model+":"+method)
	}
	return out
}

// canaryWarnings tell of a canary that cannot do what it is for.
func (r *renderer) canaryWarnings() {
	spec := r.cr.Spec.Canary
	if promoted(r.cr) == nil && !r.facts.Config.Excludes(spec.Model, spec.Version) {
		r.warn("spec.canary: the other servers may serve version %d of model %s too, since its policy does not list versions without it",
			spec.Version, spec.Model)
	}
	switch {
	case r.facts.SinglePod:
		r.warn("spec.canary: spec.modelVolume.claimName (%s) can be mounted by one pod only, so that the canary's cannot start",
			r.cr.Spec.ModelVolume.ClaimName)
	case r.facts.SingleNode:
		r.warn("spec.canary: spec.modelVolume.claimName (%s) can be mounted on one node, so that the canary's pods start only on the node that has it",
			r.cr.Spec.ModelVolume.ClaimName)
	}
}
