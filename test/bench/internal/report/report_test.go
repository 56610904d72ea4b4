package report

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mlkeeper.dev/test/bench/internal/chart"
)

func limit(v float64) *float64 { return &v }

func sample() *Result {
	return &Result{
		Quick: true, Version: "v", Machine: "m", Settings: map[string]string{"a": "b"}, Mix: map[string][]string{"adr": {"/x"}},
		Measures: []Measure{
			{ID: "a.ratio", What: "a ratio", Value: 1.25, Unit: "", Samples: []float64{1, 1.5}, Statistic: "median of 2"},
			{ID: "a.least", What: "an efficiency", Value: 0.995},
			{ID: "b.depends", What: "a limit of the run", Value: 3, Unit: "s", Limit: 4},
			{ID: "a.free", What: "no promise <b>", Value: 5 << 20, Unit: "B"},
		},
		Charts: []chart.Chart{{Kind: chart.Line, Title: "t"}},
		Sides:  []Side{{Name: "one", Services: 2, Ready: 2, IdleFor: "1m"}, {Name: "two"}},
	}
}

var promises = Thresholds{Thresholds: []Threshold{
	{ID: "a.ratio", AtMost: limit(1.2), Method: "m"},
	{ID: "a.least", AtLeast: limit(0.99), Method: "m"},
	{ID: "b.depends", AtMost: limit(1), Method: "m"},
	{ID: "a.missing", AtMost: limit(1), Method: "m"},
	{ID: "c.other", AtMost: limit(1), Method: "m"},
}}

func TestJudge(t *testing.T) {
	r := sample()
	if broken := r.Judge(promises, []string{"a", "b"}); broken != 2 {
		t.Fatalf("%d broken: %+v", broken, r.Rows)
	}
	var got []string
	for _, row := range r.Rows {
		got = append(got, row.ID+" "+row.Verdict)
	}
	want := "a.ratio FAIL,a.least pass,b.depends pass,a.free ,a.missing FAIL"
	if strings.Join(got, ",") != want {
		t.Fatalf("%v, want %s", got, want)
	}
}

func TestTableAndPage(t *testing.T) {
	r := sample()
	r.Judge(promises, []string{"a", "b"})
	var out bytes.Buffer
	if err := r.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"QUICK", "1.250", "<= 1.200", "1 to 1.500", "FAIL", "5.00 MiB", "services that became ready"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
	path := filepath.Join(t.TempDir(), "report.html")
	if err := r.WriteHTML(path); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg", "no promise &lt;b&gt;", "A quick run"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, forbidden := range []string{"<script", "src=", "href="} {
		if strings.Contains(string(page), forbidden) {
			t.Errorf("the page has %q", forbidden)
		}
	}
	if err := r.WriteJSON(path); err != nil {
		t.Errorf("a result with a missing figure cannot be written: %v", err)
	}
}

func TestThresholdsOfTheRepository(t *testing.T) {
	all, err := ReadThresholds(filepath.Join("..", "..", "thresholds.yaml"))
	if err != nil || len(all.Thresholds) == 0 {
		t.Fatalf("%d thresholds: %v", len(all.Thresholds), err)
	}
}

func TestAWrongThresholdIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.yaml")
	for _, text := range []string{"thresholds: [{id: a, method: m}]", "thresholds: [{id: a, atMost: 1, atLeast: 2, method: m}]", "threshold: []"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadThresholds(path); err == nil {
			t.Errorf("%s was taken", text)
		}
	}
}
