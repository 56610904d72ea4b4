package helm

import "testing"

// TestMergingTakesAsLongAsTheValuesAre counts allocations: values of users are merged in each reconcile, and may be nested thousands deep.
func TestMergingTakesAsLongAsTheValuesAre(t *testing.T) {
	nested := func(depth int) map[string]any {
		out := map[string]any{"x": "y"}
		for range depth {
			out = map[string]any{"x": out}
		}
		return out
	}
	allocations := func(depth int) float64 {
		under, over := nested(depth), nested(depth)
		return testing.AllocsPerRun(3, func() { Merge(under, over) })
	}
	if once, fourfold := allocations(100), allocations(400); fourfold > 6*once {
		t.Errorf("%v allocations for a depth of 100, %v for four times that", once, fourfold)
	}
}
