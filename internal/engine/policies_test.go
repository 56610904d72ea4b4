package engine

import (
	"testing"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

// TestWhatIsLeftNoMoreIsTakenBack: an object is outdated when fields of it were left to others that are not to be left any more.
func TestWhatIsLeftNoMoreIsTakenBack(t *testing.T) {
	for _, c := range []struct {
		text  string
		drift plan.Drift
		want  bool
	}{
		{"drift: spec.replicas is left", plan.Drift{}, true},
		{"drift: spec.replicas is left", plan.Drift{Leave: true}, false},
		{"ignored: /spec/replicas", plan.Drift{Ignore: []string{"/spec/other"}}, true},
		{"ignored: /spec/replicas", plan.Drift{Ignore: []string{"/spec/other", "/spec/replicas"}}, false},
		{"spec.x is unknown", plan.Drift{}, false},
	} {
		if got := leavesMore(keeper.InventoryEntry{LeftOut: []string{c.text}}, c.drift); got != c.want {
			t.Errorf("%s with %+v: %v", c.text, c.drift, got)
		}
	}
}
