package faults

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// confidence is the quantile of the normal distribution for an interval of 95 %.
const confidence = 1.96

// fewest is the least number of samples of which a slope is judged.
const fewest = 8

// trend is the slope of a series with its confidence interval of 95 %, per hour.
type trend struct {
	Slope float64 `json:"slope"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// trendOf estimates the slope as the median of the slopes between all pairs of points (Theil and Sen), since garbage collection and
// requests under way make outliers. The interval follows from the variance of Kendall's statistic, with ties. x are hours.
func trendOf(x, y []float64) trend {
	var slopes []float64
	for i := range x {
		for j := range i {
			if x[i] != x[j] {
				slopes = append(slopes, (y[i]-y[j])/(x[i]-x[j]))
			}
		}
	}
	if len(slopes) == 0 {
		return trend{} // It is judged by nobody.
	}
	slices.Sort(slopes)
	n, all := float64(len(x)), len(slopes)
	variance := n * (n - 1) * (2*n + 5)
	ties := map[float64]float64{}
	for _, v := range y {
		ties[v]++
	}
	for _, t := range ties {
		variance -= t * (t - 1) * (2*t + 5)
	}
	half := confidence * math.Sqrt(variance/18)
	low := int(math.Floor((float64(all) - half) / 2))
	high := int(math.Ceil((float64(all) + half) / 2))
	at := func(i int) float64 { return slopes[min(max(i, 0), all-1)] }
	return trend{Slope: (slopes[(all-1)/2] + slopes[all/2]) / 2, Low: at(low - 1), High: at(high)}
}

// series is one figure of the operator over time.
type series struct {
	Name   string    `json:"name"`
	Hours  []float64 `json:"hours"`
	Values []float64 `json:"values"`
	// Tolerance is how much it may grow per hour.
	Tolerance float64 `json:"tolerance"`
	trend
	// Verdict is empty for a series of which the whole interval is within the tolerance.
	Verdict string `json:"verdict,omitempty"`
}

// tolerances are how much a figure may grow per hour; those of maps have the last one.
var tolerances = map[string]float64{
	heapBytes: 1 << 20, spanBytes: 4 << 20, stackBytes: 4 << 20, residentBytes: 4 << 20, goroutines: 2, openFiles: 1, "": 2,
}

// judge estimates the trend of a series. It is right only where the whole interval is within the tolerance: what may grow by more was not shown to be
// kept in bounds, whether it was seen to grow or the samples are too few to tell.
func (s *series) judge() {
	s.trend = trendOf(s.Hours, s.Values)
	s.Tolerance = tolerances[""]
	if t, named := tolerances[s.Name]; named {
		s.Tolerance = t
	}
	low, high := amount(s.Name, s.Low), amount(s.Name, s.High)
	switch {
	case s.High <= s.Tolerance:
	case s.Low > s.Tolerance:
		s.Verdict = fmt.Sprintf("grows by %s to %s per hour", low, high)
	case s.Low > 0:
		s.Verdict = fmt.Sprintf("grows by %s to %s per hour, and may be above the tolerance%s", low, high, s.needed())
	default:
		s.Verdict = fmt.Sprintf("too short to tell: between %s and %s per hour%s", low, high, s.needed())
	}
}

// needed says for how long samples have to be taken until the interval is no wider than the tolerance. The width of the interval of a slope falls with
// the time to the power of 3/2 where the samples come at the same rate: its square is in proportion to the variance of the samples, and in inverse
// proportion to their number and to the square of the time.
func (s *series) needed() string {
	width := s.High - s.Low
	if width <= s.Tolerance {
		return "" // The slope is about the tolerance, which no longer soak changes.
	}
	hours := (s.Hours[len(s.Hours)-1] - s.Hours[0]) * math.Pow(width/s.Tolerance, 2.0/3)
	return fmt.Sprintf("; samples over about %.1f h are needed", math.Ceil(10*hours)/10)
}

// steadily says in words how a series that is right behaves.
func (s *series) steadily() string {
	if s.Low > 0 {
		return "grows within the tolerance"
	}
	return "flat"
}

// steady says that the series never changed.
func (s *series) steady() bool {
	return !slices.ContainsFunc(s.Values, func(v float64) bool { return v != s.Values[0] })
}

// soakReport is the result of a soak.
type soakReport struct {
	Seed    int64          `json:"seed"`
	Hours   float64        `json:"hours"`
	Warmup  float64        `json:"warmupHours"`
	Cycles  int            `json:"cycles"`
	Actions map[string]int `json:"actions"`
	Series  []*series      `json:"series"`
	// Faults is how many requests met a fault, by its kind.
	Faults map[string]int `json:"faults"`
	Failed []string       `json:"failed,omitempty"`
}

// seriesOf turns samples into series; a map that a sample does not have was empty.
func seriesOf(samples []sample) []*series {
	names := map[string]bool{}
	for _, one := range samples {
		for name := range one.Figures {
			names[name] = true
		}
	}
	var out []*series
	for name := range names {
		s := &series{Name: name}
		for _, one := range samples {
			s.Hours, s.Values = append(s.Hours, one.At.Hours()), append(s.Values, one.Figures[name])
		}
		s.judge()
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *series) int {
		_, first := tolerances[a.Name]
		_, second := tolerances[b.Name]
		if first != second {
			if first {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}

// judge fails the report for what grew.
func (r *soakReport) judge(samples []sample) {
	r.Series = seriesOf(samples)
	if len(samples) < fewest {
		r.Failed = append(r.Failed, fmt.Sprintf("%d samples are too few: a slope needs %d", len(samples), fewest))
	}
	for _, s := range r.Series {
		if s.Verdict != "" {
			r.Failed = append(r.Failed, s.Name+": "+s.Verdict)
		}
	}
}

// judgeReturns fails the report where too many custom resources did not come back by their first spec, and where a fresh one was not Ready.
func (r *soakReport) judgeReturns() {
	all, again, more := r.Actions[returned], r.Actions[remade[0]], r.Actions[remade[1]]
	if again*mostRemade > all {
		r.Failed = append(r.Failed, fmt.Sprintf("%d of %d returns needed everything again; one in %d may", again, all, mostRemade))
	}
	if more > 0 {
		r.Failed = append(r.Failed, fmt.Sprintf("%d custom resources were not Ready although everything had been made again", more))
	}
}

// write writes the report as JSON and as a table.
func (r *soakReport) write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "report.json"), append(raw, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "report.md"), []byte(r.String()), 0o644)
}

// String is the report as Markdown. Maps that never changed are one line.
func (r *soakReport) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Seed %d, %.2f h after a warm-up of %.2f h, %d cycles. Actions: %v. Faults: %v.\n\n", r.Seed, r.Hours, r.Warmup, r.Cycles, r.Actions, r.Faults)
	b.WriteString("| series | samples | first | last | slope per hour | 95 % interval | tolerance | verdict |\n|---|---|---|---|---|---|---|---|\n")
	steady := 0
	for _, s := range r.Series {
		if _, named := tolerances[s.Name]; !named && s.steady() && s.Verdict == "" {
			steady++
			continue
		}
		verdict := s.Verdict
		if verdict == "" {
			verdict = s.steadily()
		}
		show := func(v float64) string { return amount(s.Name, v) }
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s to %s | %s | %s |\n", s.Name, len(s.Values), show(s.Values[0]), show(s.Values[len(s.Values)-1]),
			show(s.Slope), show(s.Low), show(s.High), show(s.Tolerance), verdict)
	}
	fmt.Fprintf(&b, "\n%d further maps and lists had the same size in every sample.\n", steady)
	for _, text := range r.Failed {
		fmt.Fprintf(&b, "\nFAILED: %s\n", text)
	}
	return b.String()
}

// amount prints a figure.
func amount(name string, v float64) string {
	if slices.Contains([]string{heapBytes, spanBytes, stackBytes, residentBytes}, name) {
		return fmt.Sprintf("%.2f MiB", v/(1<<20))
	}
	return fmt.Sprintf("%.4g", v)
}

// sample are the figures of the operator at one time.
type sample struct {
	At      time.Duration
	Figures map[string]float64
}
