package inventory

import (
	"testing"
	"time"
)

// TestPendingIsRecordedOnce: entries wait while one reconciliation follows another, and not for long.
func TestPendingIsRecordedOnce(t *testing.T) {
	start := time.Unix(1e9, 0)
	p := &Pending{}
	for i, c := range []struct {
		after   time.Duration
		follows bool
		until   time.Duration
		want    bool
	}{
		{0, true, maxPending, true},
		{maxPending - 1, true, maxPending, true},
		{maxPending, true, 0, false}, // Long enough.
		{maxPending, true, 2 * maxPending, true},
		{maxPending + 1, false, 0, false}, // Nothing follows.
		{maxPending + 2, true, 2*maxPending + 2, true},
	} {
		until, deferred := p.Defer(start.Add(c.after), c.follows)
		if deferred != c.want || deferred && !until.Equal(start.Add(c.until)) {
			t.Errorf("%d: %v, until %s", i, deferred, until)
		}
	}
}
