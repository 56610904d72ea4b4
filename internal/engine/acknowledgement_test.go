package engine

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/watch"
	"mlkeeper.dev/internal/engine/wiring"
)

// TestAReadyIsAcknowledgedByEveryWire: a look at a target that began before the Ready was shown does not count, nor does one in another
// namespace. What the Ready waits for, and the Ready itself, come before new custom resources.
func TestAReadyIsAcknowledgedByEveryWire(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1e9, 0))
	e := &Engine{Options: Options{Clock: clock}, informers: watch.New(watch.Options{Catalog: &catalog.Catalog{}})}
	resources, targets := priorityqueue.New[reconcile.Request]("resources"), priorityqueue.New[reconcile.Request]("targets")
	defer resources.ShutDown()
	defer targets.ShutDown()
	s := &stacks[*keeper.Inventory, any]{
		Engine: e, queue: &queue{work: resources}, pendingReady: map[client.ObjectKey]*pendingReady[*keeper.Inventory]{},
	}
	for _, name := range []string{"one", "two"} {
		wire := wiring.Wire{Name: name, CreateName: name, GVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}}
		s.wires = append(s.wires, &wireRunner{engine: e, wire: wire, queue: &queue{work: targets}})
	}
	key := client.ObjectKey{Namespace: "ns", Name: "x"}
	one, two := client.ObjectKey{Namespace: "ns", Name: "one"}, client.ObjectKey{Namespace: "ns", Name: "two"}
	before := clock.Now()
	clock.Step(time.Second)
	s.queue.add("new", "new")
	s.wires[0].queue.add("new", "new")

	for range 2 {
		if !s.showReady(key, &keeper.Inventory{}) {
			t.Error("the wires acknowledge what they have not seen")
		}
	}
	for _, want := range []client.ObjectKey{one, two} {
		if got, _ := targets.Get(); got.NamespacedName != want {
			t.Errorf("the next target is %s, not %s", got, want)
		}
	}
	p := &reconciliation[*keeper.Inventory, any]{key: key, state: &reconcileState{}}
	waits := func() bool { _, awaits := s.wiringOf(p); return awaits }
	s.acknowledged("one", one, clock.Now())
	s.acknowledged("two", two, before)
	s.acknowledged("two", client.ObjectKey{Namespace: "other", Name: "two"}, clock.Now())
	if !waits() || !s.showReady(key, &keeper.Inventory{}) || resources.Len() != 1 {
		t.Errorf("a target that nobody processed is acknowledged; %d requests", resources.Len())
	}
	s.acknowledged("two", two, clock.Now())
	if waits() || s.showReady(key, &keeper.Inventory{}) {
		t.Error("the Ready waits although all have acknowledged it")
	}
	if got, _ := resources.Get(); got.NamespacedName != key {
		t.Errorf("%s comes before the Ready", got)
	}
	s.withdrawReady(key)
	if !s.showReady(key, &keeper.Inventory{}) {
		t.Error("the next Ready is acknowledged by the looks at the one before")
	}
}
