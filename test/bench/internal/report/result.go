// Package report holds what a run measured, judges it against the thresholds, and prints it as a table, as JSON and as a
// page. It measures nothing.
package report

import (
	"encoding/json"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"mlkeeper.dev/test/bench/internal/chart"
)

// Measure is one figure.
type Measure struct {
	// ID names the figure in the file of thresholds.
	ID    string  `json:"id"`
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Statistic says how Value was made of the samples, such as "median of 5 pairs".
	Statistic string    `json:"statistic,omitempty"`
	Samples   []float64 `json:"samples,omitempty"`
	// Limit replaces the limit of the threshold where it depends on settings of the run; zero where it does not.
	Limit float64 `json:"limit,omitempty"`
	// Detail is what helps to judge the figure.
	Detail string `json:"detail,omitempty"`
	// Missing says that there is no value: nothing was measured. It keeps no promise.
	Missing bool `json:"missing,omitempty"`
}

// Load is the load average of the machine at a moment.
type Load struct {
	Before string  `json:"before"`
	One    float64 `json:"one"`
	Five   float64 `json:"five"`
}

// Side is one operator in the comparison with a peer.
type Side struct {
	Name     string             `json:"name"`
	Services int                `json:"services"`
	Ready    int                `json:"ready"`
	Seconds  map[string]float64 `json:"secondsToReady"`
	All      float64            `json:"secondsToAllReady"`
	PerCR    map[string]float64 `json:"requestsPerService"`
	Kinds    map[string]int     `json:"requestsByKind"`
	Idle     map[string]int     `json:"idleRequests"`
	IdleFor  string             `json:"idleFor"`
	RssAnon  float64            `json:"rssAnonBytes"`
}

// Result is what a run measured.
type Result struct {
	Started time.Time `json:"started"`
	Took    string    `json:"took"`
	// Quick marks a run that only shows that the bench works.
	Quick    bool                `json:"quick"`
	Version  string              `json:"version"`
	Machine  string              `json:"machine"`
	Settings map[string]string   `json:"settings"`
	Load     []Load              `json:"load"`
	Mix      map[string][]string `json:"mix"`
	Measures []Measure           `json:"measures"`
	Rows     []Row               `json:"rows"`
	Sides    []Side              `json:"peer,omitempty"`
	Charts   []chart.Chart       `json:"charts"`
	Profiles []string            `json:"profiles,omitempty"`
	Notes    []string            `json:"notes,omitempty"`
	Failures []string            `json:"failures,omitempty"`
}

// Add records a figure. One that is no number, as the quantile of nothing is, is missing.
func (r *Result) Add(m Measure) {
	none := func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }
	if none(m.Value) {
		m.Value, m.Missing = 0, true
	}
	m.Samples = slices.DeleteFunc(slices.Clone(m.Samples), none)
	r.Measures = append(r.Measures, m)
}

// Note records a remark, once.
func (r *Result) Note(text string) {
	for _, n := range r.Notes {
		if n == text {
			return
		}
	}
	r.Notes = append(r.Notes, text)
}

// WriteJSON writes the result.
func (r *Result) WriteJSON(path string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

// LoadNow reads the load average.
func LoadNow(before string) Load {
	l := Load{Before: before}
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return l
	}
	if fields := strings.Fields(string(data)); len(fields) > 1 {
		l.One, _ = strconv.ParseFloat(fields[0], 64)
		l.Five, _ = strconv.ParseFloat(fields[1], 64)
	}
	return l
}

// Machine describes the machine: a figure means nothing without it.
func Machine() string {
	model, memory := "unknown processor", ""
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	if data, err := os.ReadFile("/proc/meminfo"); err == nil {
		if fields := strings.Fields(string(data)); len(fields) > 1 {
			if kib, err := strconv.ParseFloat(fields[1], 64); err == nil {
				memory = ", " + strconv.FormatFloat(kib/(1<<20), 'f', 0, 64) + " GiB"
			}
		}
	}
	return strconv.Itoa(runtime.NumCPU()) + " x " + model + memory
}
