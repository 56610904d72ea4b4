package engine

import (
	"testing"
	"time"
)

// TestANewSchemaCountsAfterADelay: an API server may still validate by the old schema when its change is seen.
func TestANewSchemaCountsAfterADelay(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for after, want := range map[time.Duration]struct {
		counts int64
		due    time.Time
	}{
		0: {4, since.Add(time.Second)}, time.Second - 1: {4, since.Add(time.Second)}, time.Second: {5, time.Time{}}, time.Hour: {5, time.Time{}},
	} {
		if counts, due := effective(5, since, since.Add(after), time.Second); counts != want.counts || !due.Equal(want.due) {
			t.Errorf("after %s, generation %d counts, and the new one from %s on", after, counts, due)
		}
	}
	if counts, due := effective(0, time.Time{}, since, time.Second); counts != 0 || !due.IsZero() {
		t.Errorf("without a definition, generation %d counts until %s", counts, due)
	}
}
