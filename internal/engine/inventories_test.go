package engine

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/inventory"
)

// TestAConditionEnqueuesNoFinalization: a finalization that records what it waits for would otherwise look again at once.
func TestAConditionEnqueuesNoFinalization(t *testing.T) {
	at := func(generation int64) *keeper.Inventory {
		inv := &keeper.Inventory{}
		inv.Generation, inv.Spec.Owner.UID = generation, "uid"
		return inv
	}
	for name, c := range map[string]struct {
		old, now metav1.Object
		want     int
	}{
		"created":      {nil, at(1), 1},
		"spec changed": {at(1), at(2), 1},
		"condition":    {at(2), at(2), 0},
		"deleted":      {at(2), nil, 1},
	} {
		work := priorityqueue.New[reconcile.Request]("test-" + name)
		e := &Engine{finalizations: &queue{work: work}, inventories: inventory.New(inventory.Options{})}
		e.inventoryChanged(c.old, c.now, false)
		if got := work.Len(); got != c.want {
			t.Errorf("%s: %d finalizations are enqueued", name, got)
		}
		work.ShutDown()
	}
}
