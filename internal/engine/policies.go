package engine

import (
	"slices"
	"strings"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

// withHealth returns a child with the health that its custom resource says that it has.
func withHealth(o plan.Stamped, seen *observe.Object) *observe.Object {
	if o.Health == nil || seen == nil {
		return seen
	}
	told, ok := o.Health(seen.Stripped())
	if !ok || told == seen.Health {
		return seen
	}
	out := *seen
	out.Health = told
	return &out
}

// leavesMore says that fields of an object were left to others that are not to be left any more.
func leavesMore(e keeper.InventoryEntry, drift plan.Drift) bool {
	return slices.ContainsFunc(e.LeftOut, func(text string) bool {
		pointer, ignored := strings.CutPrefix(text, act.IgnoredField)
		return ignored && !slices.Contains(drift.Ignore, pointer) || !drift.Leave && strings.HasPrefix(text, act.DriftWarning)
	})
}
