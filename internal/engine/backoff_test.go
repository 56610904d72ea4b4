package engine

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestBackoffGrowsWithTimeAndNotWithHowOftenItFails(t *testing.T) {
	now := testclock.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	b := newBackoff(now)
	item := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "x"}}
	// An outage of two seconds in which events keep waking it.
	for range 200 {
		if wait := b.When(item); wait > 2*time.Second {
			t.Fatalf("the next retry is %s away", wait)
		}
		now.SetTime(now.Now().Add(10 * time.Millisecond))
	}
	// One that lasts, with nothing but the retries.
	var last time.Duration
	for range 30 {
		last = b.When(item)
		now.SetTime(now.Now().Add(last))
	}
	if last != lastRetry {
		t.Errorf("the longest wait is %s", last)
	}
	if b.rest(item) != 0 {
		t.Error("a retry that is due is waited for")
	}
	b.Forget(item)
	if wait := b.When(item); wait != firstRetry || b.NumRequeues(item) != 1 {
		t.Errorf("after a success the first wait is %s", wait)
	}
	b.Forget(item)
	if b.NumRequeues(item) != 1 || b.rest(item) != firstRetry {
		t.Error("a pass before the retry was due counts as a success")
	}
}
