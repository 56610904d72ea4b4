package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Report sums up a suite.
type Report struct {
	Seed int64 `json:"seed"`
	Long bool  `json:"long"`
	// Seconds is how long the suite took.
	Seconds float64 `json:"seconds"`
	Plans   int     `json:"plans"`
	// Operations are the numbers of writes of users in the campaign misoperation: those that the API server refused, and those
	// after which the custom resource was ready, stalled or waiting, or was not waited for. Those that put the first spec back are apart, and runs
	// that repeat a plan are not counted.
	Operations map[string]int `json:"operations,omitempty"`
	// Campaigns are the counts of each.
	Campaigns map[string]*Counts `json:"campaigns"`
	Failures  []Failure          `json:"failures"`
	// Missed are the plans whose fault did not take place, and those of operations in which something was found once, with what that was.
	Missed []string `json:"missed,omitempty"`
}

// Counts are those of one campaign.
type Counts struct {
	Plans  int `json:"plans"`
	Failed int `json:"failed"`
	Missed int `json:"missed"`
	// Replaced are those of the missed plans in whose place others ran.
	Replaced int `json:"replaced,omitempty"`
	// Seconds is the sum over its plans, which run side by side.
	Seconds float64 `json:"seconds"`
}

// Failure is a plan that failed, and the oracles that caught it.
type Failure struct {
	Plan     Plan      `json:"plan"`
	Oracles  []string  `json:"oracles"`
	Findings []Finding `json:"findings"`
}

func (s *Suite) report(took time.Duration) *Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &Report{Seed: s.Seed, Long: s.Long, Seconds: took.Seconds(), Operations: s.operations, Campaigns: map[string]*Counts{}}
	for _, o := range s.outcomes {
		c := r.Campaigns[o.plan.Campaign]
		if c == nil {
			c = &Counts{}
			r.Campaigns[o.plan.Campaign] = c
		}
		r.Plans++
		c.Plans++
		c.Seconds += o.took.Seconds()
		if o.missed {
			c.Missed++
			r.Missed = append(r.Missed, strings.Join(append([]string{o.plan.String()}, texts(o.findings)...), ": "))
			if o.replaced {
				c.Replaced++
			}
		}
		if len(o.findings) == 0 || o.once() {
			continue
		}
		c.Failed++
		f := Failure{Plan: o.plan, Findings: o.findings}
		for _, one := range o.findings {
			if !slices.Contains(f.Oracles, one.Oracle) {
				f.Oracles = append(f.Oracles, one.Oracle)
			}
		}
		r.Failures = append(r.Failures, f)
	}
	r.unproven(s.stopped)
	return r
}

// unproven fails the campaigns in which too few faults took place to say anything: what nothing happened to is right by
// every oracle. A plan in whose place another ran is judged by that other. A suite that was stopped has failed already.
func (r *Report) unproven(stopped bool) {
	if r.Plans == 0 {
		r.Failures = append(r.Failures, unjudged("", "no plan was run"))
	}
	if r.Campaigns[misoperation] != nil && !stopped && r.Operations["ready"] == 0 {
		r.Failures = append(r.Failures, unjudged(misoperation, "no custom resource was Ready after an operation"))
	}
	for name, c := range r.Campaigns {
		i := slices.IndexFunc(campaigns, func(c campaign) bool { return c.name == name })
		missed, of := c.Missed-c.Replaced, c.Plans-c.Replaced
		if i < 0 || stopped || float64(missed) <= campaigns[i].missed*float64(of) {
			continue
		}
		text := "the faults of %d plans of %d did not take place, and %.0f %% may miss theirs"
		if name == misoperation {
			text = "what was found in %d plans of %d was not found again, and that may be so in %.0f %%"
		}
		r.Failures = append(r.Failures, unjudged(name, fmt.Sprintf(text, missed, of, 100*campaigns[i].missed)))
	}
}

// unjudged is the failure of a campaign that cannot be judged.
func unjudged(campaign, text string) Failure {
	f := Finding{Oracle: "H", Text: text}
	return Failure{Plan: Plan{Campaign: campaign}, Oracles: []string{f.Oracle}, Findings: []Finding{f}}
}

// Write writes the report as JSON.
func (r *Report) Write(path string) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644)
}

// String prints the report as a table.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %d plans in %.0f s, %d failed, %d missed their fault\n", r.Seed, r.Plans, r.Seconds,
		len(r.Failures), len(r.Missed))
	names := make([]string, 0, len(r.Campaigns))
	for name := range r.Campaigns {
		names = append(names, name)
	}
	slices.Sort(names)
	fmt.Fprintf(&b, "  %-12s %6s %6s %6s %10s\n", "campaign", "plans", "failed", "missed", "s per plan")
	for _, name := range names {
		c := r.Campaigns[name]
		fmt.Fprintf(&b, "  %-12s %6d %6d %6d %10.2f\n", name, c.Plans, c.Failed, c.Missed, c.Seconds/float64(max(c.Plans, 1)))
	}
	if len(r.Operations) > 0 {
		n := 0
		for _, count := range r.Operations {
			n += count
		}
		fmt.Fprintf(&b, "  %d operations in the campaign misoperation, %.0f a minute: %v\n", n, float64(n)*60/max(r.Seconds, 1), r.Operations)
	}
	return b.String()
}
