package engine

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// cachedInventories has Inventories without a watch.
type cachedInventories struct {
	inventory.Cache
	list []metav1.Object
}

func (c cachedInventories) ListResources(schema.GroupKind, string) []metav1.Object { return c.list }

// enqueuing is a reconciler that records what is enqueued.
type enqueuing struct {
	reconciler
	uses     schema.GroupKind
	enqueued *[]string
}

func (r enqueuing) serves(gk schema.GroupKind) bool { return gk == r.uses }

func (r enqueuing) enqueueAll() {
	*r.enqueued = append(*r.enqueued, "custom resources of "+r.uses.Kind)
}

func (r enqueuing) enqueueWires(namespace string) {
	*r.enqueued = append(*r.enqueued, "wires of "+r.uses.Kind+" in "+namespace)
}

// TestWhatTheWatchOfTheCustomResourcesDelaysIsEnqueuedWhenItIsComplete: Inventories are not finalized before, and objects of others are left
// alone. Neither has an event of its own then.
func TestWhatTheWatchOfTheCustomResourcesDelaysIsEnqueuedWhenItIsComplete(t *testing.T) {
	gizmo, other := schema.GroupKind{Group: "example.com", Kind: "Gizmo"}, schema.GroupKind{Group: "example.com", Kind: "Other"}
	inv := &keeper.Inventory{}
	inv.Spec.Owner.UID = "uid"
	for gk, want := range map[schema.GroupKind][]string{
		gizmo:         {"custom resources of Gizmo", "wires of Gizmo in ", "the finalization of uid"},
		{Kind: "Pod"}: nil,
	} {
		work := priorityqueue.New[reconcile.Request]("test-" + gk.Kind)
		var got []string
		e := &Engine{
			finalizations: &queue{work: work}, inventories: inventory.New(inventory.Options{Cache: cachedInventories{list: []metav1.Object{inv}}}),
			controllers: map[schema.GroupKind]reconciler{
				gizmo: enqueuing{uses: gizmo, enqueued: &got}, other: enqueuing{uses: other, enqueued: &got},
			},
		}
		e.watchSynced(gk)
		for range work.Len() {
			request, _ := work.Get()
			got = append(got, "the finalization of "+request.Name)
		}
		work.ShutDown()
		if !slices.Equal(got, want) {
			t.Errorf("after the sync of %s, enqueued are %q, not %q", gk.Kind, got, want)
		}
	}
}
