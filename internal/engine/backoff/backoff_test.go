package backoff

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var policy = Policy{First: time.Second, Longest: 5 * time.Minute}

func TestPausesGrowWithTimeAndNotWithHowOftenItFails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		now, r := begin, Retry{}
		for range rapid.IntRange(1, 200).Draw(t, "failures") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "later")))
			due := r.Failed(policy, "", now)
			if due != r.Due() || due.Before(now) {
				t.Fatalf("due at %s, told %s, at %s", r.Due(), due, now)
			}
			// Each pause is at most 2.5 times that of before, the sum of all of which has passed.
			if pause, passed := due.Sub(now), now.Sub(begin); pause > policy.First*5/4+passed*5/2 {
				t.Fatalf("the next attempt is %s away after %s of failures", pause, passed)
			}
		}
	})
}

func TestPausesAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{
			First:   time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "first")),
			Longest: time.Duration(rapid.Int64Range(int64(time.Minute), int64(24*time.Hour)).Draw(t, "longest")),
		}
		now, r := time.Unix(1e9, 0), Retry{}
		want := p.First
		for i := range 70 {
			pause := r.Failed(p, "", now).Sub(now)
			if pause < want || pause > want+want/4+1 {
				t.Fatalf("pause %d is %s, want %s and up to a quarter", i, pause, want)
			}
			if r.Failures() != i+1 {
				t.Fatalf("%d failures after %d", r.Failures(), i+1)
			}
			want, now = min(2*want, p.Longest), r.Due()
		}
	})
}

func TestAnotherCauseBeginsAnew(t *testing.T) {
	now, r := time.Unix(1e9, 0), Retry{}
	for range 10 {
		now = r.Failed(policy, "quota", now)
	}
	if pause := r.Failed(policy, "webhook", now).Sub(now); pause > policy.First*5/4 || r.Failures() != 1 {
		t.Errorf("after %d failures for another cause the pause is %s", r.Failures(), pause)
	}
}
