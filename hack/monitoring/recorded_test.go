package monitoring

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
)

// recorded are the metrics that an operator with every kind reported: RECORD=1 go test ./test/samples writes them.
func recorded(t *testing.T, name string) world {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	known := metrics(t)
	out := world{}
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		selector := line[:at]
		if base, _, _ := strings.Cut(selector, "{"); strings.HasPrefix(base, "mlkeeper_") {
			if _, _, found := series(base, known); !found {
				t.Errorf("%s has the metric %s, which does not exist any more: record it again", name, base)
			}
		}
		if strings.Contains(selector, "_since_timestamp_seconds") {
			value = float64(now.Add(-time.Hour).Unix()) // What was the case then is so for an hour now.
		}
		out[selector] = trend{value: value}
	}
	if len(out) < 100 {
		t.Fatalf("%s has %d series only", name, len(out))
	}
	return out
}

// TestAlertsOnWhatAnOperatorReported evaluates the rules on what an operator reported while all samples were Ready, and while one waited for
// a volume and one for its rights.
func TestAlertsOnWhatAnOperatorReported(t *testing.T) {
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: promQL})
	t.Cleanup(func() { _ = engine.Close() })
	for name, want := range map[string][]string{
		"healthy.txt":   nil,
		"not-ready.txt": {"MLKeeperNotReady", "MLKeeperStalled"},
	} {
		w := recorded(t, name)
		var got []string
		for _, r := range rules(t) {
			if fires(t, engine, r, w) {
				got = append(got, r.Alert)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v fire, want %v", name, got, want)
		}
	}
}
