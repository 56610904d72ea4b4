// Package stat holds the few statistics that the bench prints. It is pure.
package stat

import (
	"math"
	"slices"
)

// Summary describes a sample.
type Summary struct {
	N    int     `json:"n"`
	Min  float64 `json:"min"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
}

// Summarize describes the values; the summary of nothing is zero.
func Summarize(values []float64) Summary {
	if len(values) == 0 {
		return Summary{}
	}
	sorted := slices.Sorted(slices.Values(values))
	sum := 0.0
	for _, v := range sorted {
		sum += v
	}
	return Summary{
		N: len(sorted), Min: sorted[0], Max: sorted[len(sorted)-1], Mean: sum / float64(len(sorted)),
		P50: Median(sorted), P90: Quantile(sorted, 0.90), P99: Quantile(sorted, 0.99),
	}
}

// Quantile returns the nearest-rank quantile: the least value that at least the share q of all values does not exceed.
// Nothing is interpolated, so the result was really measured, and few samples never flatter a p99.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Median returns the value in the middle, or the mean of the two in the middle.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// Slope returns the slope of the line that fits the points best in the sense of least squares; it is NaN for fewer than
// two different x.
func Slope(x, y []float64) float64 {
	n := float64(min(len(x), len(y)))
	var sx, sy, sxx, sxy float64
	for i := range min(len(x), len(y)) {
		sx, sy = sx+x[i], sy+y[i]
		sxx, sxy = sxx+x[i]*x[i], sxy+x[i]*y[i]
	}
	d := n*sxx - sx*sx
	if d == 0 {
		return math.NaN()
	}
	return (n*sxy - sx*sy) / d
}
