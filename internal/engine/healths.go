package engine

import (
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

// maxHealthCost is what the expressions for all objects of one custom resource may take in one reconcile, in the units of CEL's costs: about
// a third of a second. An expression that asks for a condition takes some ten of them.
const maxHealthCost = 1_000_000

// healthRetry is after how long the objects are asked for that a reconcile left out for their cost.
const healthRetry = 10 * time.Second

// reasonCost is the reason of an object whose expressions were not evaluated for their cost.
const reasonCost = "ExpressionsCostTooMuch"

// toldHealth is what the rules of a custom resource told of one version of an object.
type toldHealth struct {
	uid               types.UID
	apiVersion, rules string
	resourceVersion   string
	generation        int64
	result            health.Result
	found             bool
}

// healths are the answers for the objects of one custom resource. An answer is a function of the object and the rules.
type healths struct {
	told map[plan.Key]toldHealth
	// spent is what this reconcile has taken.
	spent uint64
}

// of returns a child with the health that its custom resource says that it has, and false where it was not asked for its cost. That of an
// object that is being deleted, or of which the metadata alone is known, is that of its kind.
func (h *healths) of(o plan.Stamped, seen *observe.Object) (with *observe.Object, asked bool) {
	if o.Health == nil || seen == nil || seen.Terminating() || !seen.Full() || !o.Health.For(seen.APIVersion, seen.Key.Kind) {
		return seen, true
	}
	told, asked := h.tell(o, seen)
	if !told.found || told.result == seen.Health {
		return seen, asked
	}
	out := *seen
	out.Health = told.result
	return &out, asked
}

// tell returns what the rules tell of an object, and false where they were not asked for their cost. What they told before stands then, unless
// something else was declared since.
func (h *healths) tell(o plan.Stamped, seen *observe.Object) (told toldHealth, asked bool) {
	told = h.told[o.Key]
	known := told.uid == seen.UID && told.apiVersion == seen.APIVersion && told.rules == o.Health.ID()
	switch {
	case known && told.resourceVersion == seen.ResourceVersion && told.resourceVersion != "":
		return told, true
	case h.spent >= maxHealthCost/2 && known && told.generation == seen.Generation:
		return told, false // The other half is for what has no answer yet.
	case h.spent >= maxHealthCost:
		return toldHealth{found: true, result: health.Result{
			Status: health.InProgress, Reason: reasonCost, Message: fmt.Sprintf("its health is asked for in %s, since the expressions for the objects "+
				"before it take more than a reconcile may: simplify healthCheckExprs", healthRetry),
		}}, false
	}
	told = toldHealth{
		uid: seen.UID, apiVersion: seen.APIVersion, rules: o.Health.ID(), resourceVersion: seen.ResourceVersion, generation: seen.Generation,
	}
	var cost uint64
	told.result, cost, told.found = o.Health.Of(seen.Stripped())
	h.spent += cost
	if h.told == nil {
		h.told = map[plan.Key]toldHealth{}
	}
	h.told[o.Key] = told
	return told, true
}

// keep drops the answers for what the plan has no more.
func (h *healths) keep(desired map[plan.Key]bool) {
	maps.DeleteFunc(h.told, func(key plan.Key, _ toldHealth) bool { return !desired[key] })
}

// withHealth returns a child with the health that its custom resource says that it has. What was not asked is asked in another reconcile.
func (s *stacks[C, F]) withHealth(p *reconciliation[C, F], o plan.Stamped, seen *observe.Object) *observe.Object {
	out, asked := p.state.healths.of(o, seen)
	if !asked {
		p.requeueAt(s.Clock.Now().Add(healthRetry))
	}
	return out
}
