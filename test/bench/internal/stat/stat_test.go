package stat

import (
	"math"
	"testing"
)

func TestQuantileIsAMeasuredValue(t *testing.T) {
	values := []float64{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.2: 1, 0.21: 2, 0.5: 3, 0.99: 5, 1: 5} {
		if got := Quantile(values, q); got != want {
			t.Errorf("quantile %g is %g, want %g", q, got, want)
		}
	}
	if values[0] != 5 {
		t.Error("the values were reordered")
	}
	if !math.IsNaN(Quantile(nil, 0.5)) {
		t.Error("the quantile of nothing is a number")
	}
}

func TestP99OfFiveHundredLeavesFiveAbove(t *testing.T) {
	values := make([]float64, 500)
	for i := range values {
		values[i] = float64(i + 1)
	}
	if got := Summarize(values).P99; got != 495 {
		t.Fatalf("p99 is %g, want 495", got)
	}
}

func TestMedian(t *testing.T) {
	if got := Median([]float64{3, 1, 2}); got != 2 {
		t.Errorf("median of three is %g", got)
	}
	if got := Median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("median of four is %g", got)
	}
}

func TestSummaryOfNothingIsZero(t *testing.T) {
	if got := Summarize(nil); got != (Summary{}) {
		t.Fatalf("%+v", got)
	}
}

func TestSlope(t *testing.T) {
	if got := Slope([]float64{0, 10, 20}, []float64{1, 6, 11}); math.Abs(got-0.5) > 1e-9 {
		t.Errorf("slope is %g, want 0.5", got)
	}
	if !math.IsNaN(Slope([]float64{1, 1}, []float64{1, 2})) {
		t.Error("points above each other have a slope")
	}
}
