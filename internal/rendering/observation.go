package rendering

import (
	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/healthexpr"
	"mlkeeper.dev/internal/engine/plan"
)

// Health is that of the custom resources among what was rendered, as expressions of the user tell it.
type Health struct {
	// Rules are the compiled expressions, and Error says which of them is wrong; nil where none is.
	Rules *healthexpr.Rules
	Error *healthexpr.Error
}

// HealthOf compiles the expressions of an application or a component.
func HealthOf(o keeper.Observation) (out Health) {
	out.Rules, out.Error = healthexpr.Compile(o.HealthCheckExprs)
	return out
}

// Observe has an object observed as its custom resource says. The health of a Namespace and of a definition is that of their kind: other
// objects wait for them.
func (h Health) Observe(o *plan.Object, drift *keeper.DriftDetection) {
	key := o.Key()
	o.Drift = plan.DriftOf(drift, key)
	if h.Rules != nil && !plan.AlwaysRetained(key) {
		o.Health = h.Rules
	}
}
