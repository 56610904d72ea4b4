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
		wait, err := r.failed(key, m, nil, "update", conflict)
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
	if _, err := r.failed(key, m, nil, "update", gone); err != nil {
		t.Fatal(err)
	}
	if wait, _ := r.failed(key, m, nil, "update", conflict); wait > conflictRetry.First*5/4 {
		t.Errorf("the next object begins with %s", wait)
	}
}
