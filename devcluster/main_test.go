package main

import (
	"os"
	"strings"
	"testing"
)

// TestMain lets the test binary be devcluster: the supervisor and every
// component are started as further runs of the same executable.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}
