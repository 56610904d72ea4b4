//go:build realacm

package acmruntime

import (
	"os"
	"slices"
	"testing"
)

// TestTheRuntimeThatWasRecorded holds the stand-in against what a runtime has just said, which make test-acm recorded.
func TestTheRuntimeThatWasRecorded(t *testing.T) {
	lines := recording(t, os.Getenv("RUNTIME_RECORDING"))
	release := V910
	if slices.ContainsFunc(lines, func(l line) bool { return l.Message["primeDtoList"] != nil }) {
		release = Master
	}
	j := newJudge(t, release)
	if err := j.follow(lines); err != nil {
		t.Error(err)
	}
	t.Logf("%d messages were compared with the stand-in for %s", j.compared, release)
}
