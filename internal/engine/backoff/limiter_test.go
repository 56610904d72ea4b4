package backoff

import (
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"
)

func TestLimiter(t *testing.T) {
	now := testclock.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	l := NewLimiter[string](policy, now)
	if l.Remaining("a") != 0 || l.NumRequeues("a") != 0 {
		t.Error("what never failed is waited for")
	}
	first := l.When("a")
	if again := l.When("a"); again != first || l.NumRequeues("a") != 1 || l.Remaining("a") != first {
		t.Errorf("a failure before the retry is due waits for another: %s, %s", first, again)
	}
	l.Forget("a")
	if l.NumRequeues("a") != 1 {
		t.Error("a pass before the retry was due counts as a success")
	}
	now.SetTime(now.Now().Add(first))
	if l.Remaining("a") != 0 {
		t.Error("a retry that is due is waited for")
	}
	l.Forget("a")
	if l.NumRequeues("a") != 0 {
		t.Error("a success is not taken in")
	}
	for range 2 {
		l.When("a")
		now.SetTime(now.Now().Add(l.Remaining("a")))
	}
	l.When("a")
	l.Drop("a")
	if l.NumRequeues("a") != 0 || l.Remaining("a") != 0 {
		t.Error("what is dropped is waited for")
	}
}

// TestLimiterForgetsWhatIsTriedNoMore: an item that succeeded too early, and is gone then, is neither forgotten nor dropped by its queue.
func TestLimiterForgetsWhatIsTriedNoMore(t *testing.T) {
	now := testclock.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	l := NewLimiter[string](policy, now)
	l.When("gone")
	l.Forget("gone")
	now.SetTime(now.Now().Add(policy.Longest))
	l.When("failing")
	if l.NumRequeues("gone") != 1 {
		t.Error("an item whose retry is due only now is forgotten")
	}
	now.SetTime(now.Now().Add(2 * policy.Longest))
	l.Forget("other")
	if n := l.NumRequeues("gone"); n != 0 {
		t.Errorf("an item that nobody tries has %d failures", n)
	}
}
