package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mlkeeper.dev/internal/cli"
)

// TestMonitoringIsCurrent compares config/monitoring with the metrics in this binary.
func TestMonitoringIsCurrent(t *testing.T) {
	for _, file := range []string{"dashboard.json", "rules.yaml", "prometheusrule.yaml", "metrics.json"} {
		what, _, _ := strings.Cut(file, ".")
		stdout, stderr, err := execute(t, "monitoring", what)
		if err != nil {
			t.Fatalf("%v\n%s", err, stderr)
		}
		committed, err := os.ReadFile(filepath.Join("../../config/monitoring", file))
		if err != nil || string(committed) != stdout {
			t.Errorf("config/monitoring/%s is not current (%v): run make manifests", file, err)
		}
	}
	if _, _, err := execute(t, "monitoring", "nonsense"); err == nil {
		t.Error("what there is not is printed")
	}
}

func TestExitStatus(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		text   string
	}{
		{nil, 0, ""},
		{errors.New("a\x1b[31mb"), 1, "mlkeeper: a\\u001b[31mb\n"},
		{&cli.Exit{Status: 1}, 1, ""},
		{&cli.Exit{Status: 2, Err: errors.New("why")}, 2, "mlkeeper: why\n"},
	} {
		var out strings.Builder
		if got := report(&out, c.err); got != c.status || out.String() != c.text {
			t.Errorf("%v: status %d, %q", c.err, got, out.String())
		}
	}
}
