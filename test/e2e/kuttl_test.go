package e2e

import (
	"testing"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
	"mlkeeper.dev/test/kuttl"
)

// TestKuttl runs the test list of TrustyAI ADR 3.
func TestKuttl(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	kuttl.Run(t, c, "../testdata/kuttl", nil)
}
