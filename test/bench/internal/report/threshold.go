package report

import (
	"fmt"
	"os"
	"slices"

	"sigs.k8s.io/yaml"
)

// Threshold is one promise.
type Threshold struct {
	ID string `json:"id"`
	// AtMost or AtLeast is the limit.
	AtMost  *float64 `json:"atMost,omitempty"`
	AtLeast *float64 `json:"atLeast,omitempty"`
	// Method says how the figure is made.
	Method string `json:"method"`
}

// Thresholds are the promises of the project.
type Thresholds struct {
	Thresholds []Threshold `json:"thresholds"`
}

// Row is one figure with its judgement.
type Row struct {
	Measure
	Threshold string `json:"threshold,omitempty"`
	// Verdict is pass, FAIL, or empty where nothing is promised.
	Verdict string `json:"verdict,omitempty"`
}

// The verdicts.
const (
	Pass = "pass"
	Fail = "FAIL"
)

// ReadThresholds reads the committed file. A threshold that is written wrongly must not pass for one that holds.
func ReadThresholds(path string) (Thresholds, error) {
	var out Thresholds
	data, err := os.ReadFile(path)
	if err == nil {
		err = yaml.UnmarshalStrict(data, &out)
	}
	if err != nil {
		return out, fmt.Errorf("%s: %w", path, err)
	}
	for i, t := range out.Thresholds {
		if t.ID == "" || (t.AtMost == nil) == (t.AtLeast == nil) || t.Method == "" {
			return out, fmt.Errorf("%s: threshold %d (%s) needs an id, a method, and one of atMost and atLeast", path, i, t.ID)
		}
	}
	return out, nil
}

// Judge fills in the rows and returns how many thresholds are broken. Where a scenario ran (or failed), each threshold
// with its name before the dot must have been measured, since a figure that is missing is no pass.
func (r *Result) Judge(t Thresholds, ran []string) int {
	broken := 0
	r.Rows = nil
	for _, m := range r.Measures {
		row := Row{Measure: m}
		i := slices.IndexFunc(t.Thresholds, func(t Threshold) bool { return t.ID == m.ID })
		if i >= 0 {
			row.Threshold, row.Verdict = t.Thresholds[i].judge(m)
		}
		if row.Verdict == Fail {
			broken++
		}
		r.Rows = append(r.Rows, row)
	}
	for _, t := range t.Thresholds {
		if slices.Contains(ran, scenarioOf(t.ID)) && !slices.ContainsFunc(r.Measures, func(m Measure) bool { return m.ID == t.ID }) {
			broken++
			r.Rows = append(r.Rows, Row{Measure: Measure{ID: t.ID, What: t.ID, Missing: true}, Verdict: Fail})
		}
	}
	return broken
}

func (t Threshold) judge(m Measure) (text, verdict string) {
	limit, sign, ok := 0.0, "", false
	if t.AtMost != nil {
		limit, sign = *t.AtMost, "<="
	} else {
		limit, sign = *t.AtLeast, ">="
	}
	if m.Limit != 0 {
		limit = m.Limit
	}
	if t.AtMost != nil {
		ok = m.Value <= limit
	} else {
		ok = m.Value >= limit
	}
	verdict = Fail
	if ok && !m.Missing {
		verdict = Pass
	}
	return sign + " " + Number(limit, m.Unit), verdict
}

func scenarioOf(id string) string {
	for i, r := range id {
		if r == '.' {
			return id[:i]
		}
	}
	return id
}
