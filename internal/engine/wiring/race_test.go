package wiring

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
)

// A write that loses one race is tried again at once; one that loses them all does not keep the API server busy.
func TestLostRacesAreTriedAgainLessAndLessOften(t *testing.T) {
	clock := testclock.NewFakePassiveClock(time.Unix(1e9, 0))
	r := NewReconciler(Wire{Name: "w"}, Deps{Clock: clock})
	key := types.NamespacedName{Namespace: "ns", Name: "n"}
	m := r.memo(key)
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "n", errors.New("changed"))
	var last time.Duration
	for i := range 20 {
		wait, err := r.failed(key, m, &decision{}, "update", conflict)
		if err != nil || wait < conflictRetry.First || wait < min(last*3/2, conflictRetry.Longest) {
			t.Fatalf("attempt %d waits %s after %s: %v", i, wait, last, err)
		}
		last = wait
		clock.SetTime(clock.Now().Add(wait))
	}
	if last > conflictRetry.Longest*5/4 {
		t.Errorf("in the end it waits %s", last)
	}
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "n")
	if _, err := r.failed(key, m, &decision{}, "update", gone); err != nil {
		t.Fatal(err)
	}
	if wait, _ := r.failed(key, m, &decision{}, "update", conflict); wait > conflictRetry.First*5/4 {
		t.Errorf("the next object begins with %s", wait)
	}
}

// TestNothingIsRememberedOfAnObjectThatIsGone: a lost race and repairs are of no use then, and nothing enqueues the key again.
func TestNothingIsRememberedOfAnObjectThatIsGone(t *testing.T) {
	clock := testclock.NewFakePassiveClock(time.Unix(1e9, 0))
	key := types.NamespacedName{Namespace: "ns", Name: "n"}
	for _, wire := range []Wire{{Name: "w"}, {Name: "w", CreateName: "n"}} {
		r := NewReconciler(wire, Deps{Clock: clock})
		m := r.memo(key)
		entries := []Entry{{Owner: "CR/a"}}
		m.count(clock.Now(), entries, "")
		m.count(clock.Now(), entries, "rival")
		m.lost.Failed(conflictRetry, "", clock.Now())
		if r.prune(key, m); len(r.memos) != 1 {
			t.Fatal("repairs are not remembered")
		}
		if _, err := r.absent(t.Context(), nil, key, m, nil); err != nil {
			t.Fatal(err)
		}
		if r.prune(key, m); len(r.memos) > 0 {
			t.Errorf("CreateName %q: %+v is remembered", wire.CreateName, m)
		}
	}
}
