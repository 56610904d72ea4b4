package backoff

import (
	"testing"
	"time"
)

var bound = Bound{Free: 3, Window: time.Minute, Pauses: policy}

func TestWhatIsTakenBackEachTimeIsWrittenLessAndLessOften(t *testing.T) {
	begin := time.Unix(1e9, 0)
	now, r, writes := begin, Repetition{}, 0
	for now.Before(begin.Add(time.Hour)) {
		if !r.Waits(now) {
			writes++
			r.Again(bound, now)
			if r.Paused() != (writes > 3) || !r.Last().Equal(now) {
				t.Fatalf("write %d: %+v", writes, r)
			}
		}
		now = now.Add(100 * time.Millisecond)
	}
	// Three are free, ten come until the pauses have grown to five minutes, and one every five minutes after that.
	if writes < 3+10+8 || writes > 3+10+12 {
		t.Errorf("it was written %d times within an hour", writes)
	}
}

func TestWhatIsLeftAloneStartsAnew(t *testing.T) {
	now, r := time.Unix(1e9, 0), Repetition{}
	for range 20 {
		r.Again(bound, now)
		for _, after := range []time.Duration{bound.Window, r.Due().Sub(now)} {
			if r.Over(bound, now.Add(after)) {
				t.Fatalf("it is over %s after %+v", after, r)
			}
		}
		if !r.Over(bound, now.Add(max(bound.Window, 2*r.Due().Sub(now))+1)) {
			t.Fatalf("it is not over long after %+v", r)
		}
		now = now.Add(max(time.Second, r.Due().Sub(now)))
	}
}
