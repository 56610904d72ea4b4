package engine

import (
	"slices"
	"strings"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/plan"
)

// leavesMore says that fields of an object were left to others that are not to be left any more.
func leavesMore(e keeper.InventoryEntry, drift plan.Drift) bool {
	return slices.ContainsFunc(e.LeftOut, func(text string) bool {
		pointer, ignored := strings.CutPrefix(text, act.IgnoredField)
		return ignored && !slices.Contains(drift.Ignore, pointer) || !drift.Leave && strings.HasPrefix(text, act.DriftWarning)
	})
}
