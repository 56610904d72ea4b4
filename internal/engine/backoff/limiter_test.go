package backoff

import (
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"
)

func TestLimiter(t *testing.T) {
	now := testclock.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	l := NewLimiter[string](policy, now)
	if l.Rest("a") != 0 || l.NumRequeues("a") != 0 {
		t.Error("what never failed is waited for")
	}
	first := l.When("a")
	if again := l.When("a"); again != first || l.NumRequeues("a") != 1 || l.Rest("a") != first {
		t.Errorf("a failure before the retry is due waits for another: %s, %s", first, again)
	}
	l.Forget("a")
	if l.NumRequeues("a") != 1 {
		t.Error("a pass before the retry was due counts as a success")
	}
	now.SetTime(now.Now().Add(first))
	if l.Rest("a") != 0 {
		t.Error("a retry that is due is waited for")
	}
	l.Forget("a")
	if l.NumRequeues("a") != 0 {
		t.Error("a success is not taken in")
	}
	for range 2 {
		l.When("a")
		now.SetTime(now.Now().Add(l.Rest("a")))
	}
	l.When("a")
	l.Drop("a")
	if l.NumRequeues("a") != 0 || l.Rest("a") != 0 {
		t.Error("what is dropped is waited for")
	}
}
