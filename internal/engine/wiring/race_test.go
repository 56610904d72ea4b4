package wiring

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A write that loses one race is tried again at once; one that loses them all does not keep the API server busy.
func TestLostRacesAreTriedAgainLessAndLessOften(t *testing.T) {
	r := NewReconciler(Wire{Name: "w"}, Deps{})
	key := types.NamespacedName{Namespace: "ns", Name: "n"}
	m := r.memo(key)
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "n", errors.New("changed"))
	within := time.Duration(0)
	for i, n := 0, 0; i < 20; i++ {
		wait, err := r.failed(key, m, nil, "update", conflict)
		if err != nil || wait < conflictRetry || wait > lastConflictRetry {
			t.Fatalf("attempt %d waits %s: %v", i, wait, err)
		}
		if within += wait; within <= time.Second {
			if n++; n > 8 {
				t.Fatalf("%d attempts within a second", n)
			}
		}
	}
	if wait, _ := r.failed(key, m, nil, "update", conflict); wait != lastConflictRetry {
		t.Errorf("in the end it waits %s", wait)
	}
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "n")
	if _, err := r.failed(key, m, nil, "update", gone); err != nil {
		t.Fatal(err)
	}
	if wait, _ := r.failed(key, m, nil, "update", conflict); wait != conflictRetry {
		t.Errorf("the next object begins with %s", wait)
	}
}
