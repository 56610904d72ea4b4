package tfserving

import (
	"strings"
	"testing"

	"mlkeeper.dev/internal/engine/controller/controllertest"
)

// TestARequestOutlivesItsPodsDeletion: the server ends with the grace period and not before, so that this has to be as long as a request may take.
func TestARequestOutlivesItsPodsDeletion(t *testing.T) {
	for fields, want := range map[string]struct {
		grace    int64
		deadline int32
		warning  string
	}{
		"":                                       {70, 720, ""},
		"  server: {restTimeoutMillis: 60000}\n": {70, 720, ""},
		"  server: {restTimeoutMillis: 60001}\n": {71, 721, ""},
		"  server: {restTimeoutMillis: 300000}\n":                                        {310, 960, ""},
		"  server: {restTimeoutMillis: 86400000}\n":                                      {3600, 4250, "leaves 3590 seconds"},
		"  terminationGracePeriodSeconds: 10\n":                                          {10, 720, ""},
		"  terminationGracePeriodSeconds: 30\n  server: {restTimeoutMillis: 30000}\n":    {30, 720, "leaves 20 seconds"},
		"  terminationGracePeriodSeconds: 7200\n  server: {restTimeoutMillis: 300000}\n": {7200, 7850, ""},
	} {
		_, p := gatherAndRender(t, controllertest.New(testNow), custom(t, inline+fields))
		spec := deployed(t, p, "tfs").Spec
		if got := *spec.Template.Spec.TerminationGracePeriodSeconds; got != want.grace || *spec.ProgressDeadlineSeconds != want.deadline {
			t.Errorf("%q: a grace period of %d s and a deadline of %d s, not %d and %d", fields, got, *spec.ProgressDeadlineSeconds, want.grace, want.deadline)
		}
		if got := strings.Join(p.Warnings, "\n"); (got != "") != (want.warning != "") || !strings.Contains(got, want.warning) {
			t.Errorf("%q: warnings %q", fields, got)
		}
	}
}
