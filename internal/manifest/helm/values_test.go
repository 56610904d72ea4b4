package helm

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"mlkeeper.dev/internal/manifest/bounded"
)

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

// bomb is a text that aliases make longer than values may be.
var bomb = "a: &a " + strings.Repeat("x", 100<<10) + "\nb: [" + strings.Repeat("*a, ", 90) + "]\n"

// TestWhatTheManagerDecodesIsBounded: values and Chart.yaml are decoded outside of the workers.
func TestWhatTheManagerDecodesIsBounded(t *testing.T) {
	for name, text := range map[string]string{"texts": bomb, "values": "a: [" + strings.Repeat("[],", 1<<17) + "]"} {
		if _, err := ParseValues([]byte(text)); !errors.As(err, new(*bounded.LargeError)) {
			t.Errorf("values, %s: %.100v", name, err)
		}
		_, err := Load(fstest.MapFS{"Chart.yaml": {Data: []byte("\xef\xbb\xbfapiVersion: v2\nname: large\nversion: 1.0.0\nannotations:\n  " +
			strings.ReplaceAll(text, "\n", "\n  "))}})
		if !errors.As(err, new(*bounded.LargeError)) || strings.Contains(err.Error(), "xxx") {
			t.Errorf("Chart.yaml, %s: %.100v", name, err)
		}
	}
}
