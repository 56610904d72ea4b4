//go:build realacm

package acmruntime

import (
	"os"
	"testing"
)

// TestTheRuntimeThatWasRecorded holds the stand-in against what a runtime has just said, which make test-acm recorded.
func TestTheRuntimeThatWasRecorded(t *testing.T) {
	j := newJudge(t)
	if err := j.follow(recording(t, os.Getenv("RUNTIME_RECORDING"))); err != nil {
		t.Error(err)
	}
	t.Logf("%d messages were compared", j.compared)
}
