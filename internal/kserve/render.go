package kserve

import (
	"time"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

// Render plans the InferenceServices that should run. It is pure.
func (system) Render(_ *keeper.CompositionElement, facts Facts) plan.Plan {
	out := plan.Plan{}
	stage := plan.Stage{Name: "services"}
	for _, service := range facts.Services {
		stage.Objects = append(stage.Objects, plan.Object{Desired: service, Inherit: facts.HandedOver[plan.KeyOf(service)]})
	}
	out.Stages = []plan.Stage{stage}
	if facts.Unknown && !facts.GoesBack {
		out.Problems = []plan.Problem{*facts.Refused}
	}
	if facts.Held != nil && len(out.Problems) == 0 {
		out.Problems = []plan.Problem{*facts.Held}
	}
	for _, at := range []time.Time{facts.Deadline, facts.SlowFrom} {
		if facts.Outcome == nil && facts.Now.Before(at) {
			out.WakeAt = at // The earlier one comes last.
		}
	}
	return out
}
