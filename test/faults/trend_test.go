package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// hoursOf are n samples within an hour.
func hoursOf(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(i) / float64(n)
	}
	return out
}

func TestTrendOfALineIsItsSlope(t *testing.T) {
	x := hoursOf(10)
	y := make([]float64, len(x))
	for i := range x {
		y[i] = 3 + 7*x[i]
	}
	y[4] += 100 // One outlier changes nothing.
	got := trendOf(x, y)
	if got.Slope < 6.99 || got.Slope > 7.01 || got.Low > 7.01 || got.High < 6.99 {
		t.Errorf("the slope is %+v", got)
	}
}

func TestTrendOfTiesIsZero(t *testing.T) {
	if got := trendOf(hoursOf(9), make([]float64, 9)); got != (trend{}) {
		t.Errorf("the slope of a constant is %+v", got)
	}
}

// TestTrendIntervalsHoldTheSlope: of many noisy series, about 95 % of the intervals have the true slope.
func TestTrendIntervalsHoldTheSlope(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // A sample needs no cryptographic randomness.
	const tries = 1000
	for _, slope := range []float64{0, 5} {
		held := 0
		for range tries {
			x := hoursOf(20)
			y := make([]float64, len(x))
			for i := range x {
				y[i] = slope*x[i] + random.NormFloat64()
			}
			if got := trendOf(x, y); got.Low <= slope && slope <= got.High {
				held++
			}
		}
		if held < 930 || held > 985 {
			t.Errorf("%d of %d intervals hold the slope %g", held, tries, slope)
		}
	}
}

// wavering are 20 values, of samplesOf two hours, that grow by so much per hour and waver by so much.
func wavering(perHour, by float64) []float64 {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // A sample needs no cryptographic randomness.
	out := make([]float64, 20)
	for i := range out {
		out[i] = 100<<20 + perHour*float64(i)/10 + by*random.NormFloat64()
	}
	return out
}

// TestASoakIsToldHowLongItHasToBe: in the time that the verdict on a short soak names, the interval gets about as narrow as the tolerance.
func TestASoakIsToldHowLongItHasToBe(t *testing.T) {
	for _, slope := range []float64{0, 1 << 20, 8 << 20} {
		narrow, named := 0, 0
		for try := range uint64(50) {
			random := rand.New(rand.NewPCG(try, 2)) //nolint:gosec // A sample needs no cryptographic randomness.
			of := func(hours float64) *series {
				s := &series{Name: residentBytes}
				for at := 0.0; at < hours; at += 1.0 / 60 {
					s.Hours, s.Values = append(s.Hours, at), append(s.Values, slope*at+(3<<20)*random.NormFloat64())
				}
				s.judge()
				return s
			}
			hours, s := 0.0, of(0.3)
			i := strings.LastIndex(s.Verdict, "about ")
			if i < 0 {
				continue
			}
			if _, err := fmt.Sscanf(s.Verdict[i:], "about %g h", &hours); err != nil {
				t.Fatalf("%s: %v", s.Verdict, err)
			}
			named++
			if s = of(hours); s.High-s.Low < 1.5*s.Tolerance {
				narrow++
			}
		}
		if named < 30 || narrow < named*9/10 {
			t.Errorf("%s: of %d soaks of the time that was named, %d had narrow intervals", amount(residentBytes, slope), named, narrow)
		}
	}
}

// TestASoakFailsForWhatDoesNotComeBack: a user may change what cannot be changed back, but what is made again in an empty namespace has to be Ready.
func TestASoakFailsForWhatDoesNotComeBack(t *testing.T) {
	for _, c := range []struct {
		all, again, more int
		want             string
	}{
		{0, 0, 0, ""},
		{20, 2, 0, ""},
		{20, 3, 0, "3 of 20 returns needed everything again; one in 10 may"},
		{20, 1, 1, "1 custom resources were not Ready although everything had been made again"},
	} {
		r := soakReport{Actions: map[string]int{returned: c.all, remade[0]: c.again, remade[1]: c.more}}
		r.judgeReturns()
		if got := strings.Join(r.Failed, "; "); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestGrowthWithinTheToleranceIsNotCalledFlat: a reader of the report is to see it.
func TestGrowthWithinTheToleranceIsNotCalledFlat(t *testing.T) {
	var r soakReport
	r.judge(samplesOf(residentBytes, wavering(3<<20, 0.02*(1<<20))...))
	if len(r.Failed) > 0 || !strings.Contains(r.String(), "| grows within the tolerance |") {
		t.Errorf("%s", &r)
	}
}

// samplesOf are samples of one figure.
func samplesOf(name string, values ...float64) []sample {
	var out []sample
	for i, v := range values {
		out = append(out, sample{At: time.Duration(i) * 6 * time.Minute, Figures: map[string]float64{name: v}})
	}
	return out
}

func TestSoakFailsForWhatGrows(t *testing.T) {
	const some = "watch.references.watches"
	for _, c := range []struct {
		name   string
		series string
		values []float64
		fails  string
	}{
		{"a map that forgets to delete", some, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, "grows by"},
		{"a map that comes and goes", some, slices.Repeat([]float64{1, 2, 1, 3, 1, 2, 1, 2, 1, 3}, 4), ""},
		{"a map that comes and goes, for too short a time", some, []float64{1, 9, 2, 7, 3, 9, 1, 8, 2, 9}, "h are needed"},
		{"a map that fills up once", some, []float64{1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, ""},
		{"a map that shrinks", some, []float64{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, ""},
		{"memory within its tolerance", heapBytes, []float64{1, 10e3, 20e3, 30e3, 40e3, 50e3, 60e3, 70e3}, ""},
		{"memory that grows by what is about its tolerance", heapBytes, wavering(0.95*(1<<20), 0.3*(1<<20)), "may be above the tolerance"},
		{"memory that wavers", residentBytes, wavering(0, 8<<20), "too short to tell"},
		{"memory above its tolerance", heapBytes, []float64{1e6, 2e6, 3e6, 4e6, 5e6, 6e6, 7e6, 8e6}, "grows by"},
		{"too few samples", openFiles, []float64{7, 7, 7}, "too few"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r soakReport
			r.judge(samplesOf(c.series, c.values...))
			switch failed := strings.Join(r.Failed, "\n"); {
			case c.fails == "" && failed != "":
				t.Errorf("it failed: %s", failed)
			case !strings.Contains(failed, c.fails):
				t.Errorf("it says %q", failed)
			case !strings.Contains(r.String(), c.series):
				t.Errorf("the report leaves out a series that changes:\n%s", &r)
			}
		})
	}
	var none soakReport
	if none.judge(nil); len(none.Failed) == 0 {
		t.Error("a soak without samples is right")
	}
}
