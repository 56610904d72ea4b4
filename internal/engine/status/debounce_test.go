package status

import (
	"testing"
	"time"
)

// TestProgressIsReportedBySizeOfTheCrowd: the progress of one custom resource is reported soon, that of a thousand after two minutes,
// also that of the last of them, until they are forgotten.
func TestProgressIsReportedBySizeOfTheCrowd(t *testing.T) {
	for n, want := range map[int]time.Duration{1: 2 * time.Second, 2: 2 * time.Second, 10: 10 * time.Second, 1000: 2 * time.Minute} {
		now := time.Unix(1e9, 0)
		d := &Debounce{}
		for range n {
			d.Count(true, now)
		}
		for i := range n - 1 {
			if got := d.Delay(true, now); got != want {
				t.Fatalf("%d of %d are done: %s, want %s", i, n, got, want)
			}
			d.Count(false, now)
		}
		for range 2 {
			now = now.Add(window)
			_ = d.Delay(true, now)
		}
		if got := d.Delay(true, now); got != minProgress {
			t.Errorf("the last of %d is reported after %s only", n, got)
		}
	}
}
