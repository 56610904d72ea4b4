package engine

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/background"
	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/fairqueue"
	"mlkeeper.dev/internal/engine/fieldownership"
	"mlkeeper.dev/internal/engine/inventory"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/shard"
	"mlkeeper.dev/internal/engine/watch"
	"mlkeeper.dev/internal/engine/wiring"
)

// byNamespace are three shards, named by their namespaces.
func byNamespace() *shard.Shards {
	return shard.NewBy(3, func(key types.NamespacedName) int { return slices.Index([]string{"", "mine", "others"}, key.Namespace) })
}

// TestOnlyAHeldShardIsReconciled: neither is what is of another shard queued, nor reconciled that was queued before the shard was lost, and
// what runs ends when the lease may be lost.
func TestOnlyAHeldShardIsReconciled(t *testing.T) {
	shards := byNamespace()
	shards.Hold(1)
	work := fairqueue.New("", backoff.NewLimiter[reconcile.Request](transientRetry, clock.RealClock{}), clock.RealClock{}, 16)
	defer work.ShutDown()
	q := &queue{work: work, shards: shards}
	q.add("others", "x")
	q.add("mine", "x")
	if n := work.Len(); n != 1 {
		t.Errorf("%d requests are queued", n)
	}
	var reconciled []string
	var running context.Context
	f := fenced{reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		reconciled, running = append(reconciled, req.Namespace), ctx
		shards.Lose()
		if ctx.Err() == nil {
			t.Error("a reconcile goes on while its lease may be lost")
		}
		return reconcile.Result{}, nil
	}), shards}
	for _, namespace := range []string{"others", "mine", "mine"} {
		if _, err := f.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace}}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(reconciled, []string{"mine"}) || running.Err() == nil {
		t.Errorf("%v were reconciled", reconciled)
	}
}

// TestTheFinalizationOfADeletedResourceHasItsShard: the namespace may be gone, too.
func TestTheFinalizationOfADeletedResourceHasItsShard(t *testing.T) {
	shards := byNamespace()
	shards.Hold(1)
	work := fairqueue.New("", backoff.NewLimiter[reconcile.Request](transientRetry, clock.RealClock{}), clock.RealClock{}, 16)
	defer work.ShutDown()
	e := &Engine{finalizations: &queue{work: work, shards: shards}, inventories: inventory.New(inventory.Options{})}
	for _, namespace := range []string{"mine", "others"} {
		inv := &keeper.Inventory{Spec: keeper.InventorySpec{Owner: keeper.InventoryOwner{Namespace: namespace, UID: types.UID("uid-" + namespace)}}}
		e.inventoryChanged(nil, inv, false)
	}
	if work.Len() != 1 {
		t.Fatalf("%d finalizations are queued", work.Len())
	}
	if req, _ := work.Get(); req.Namespace != "mine" || req.Name != "uid-mine" {
		t.Errorf("the finalization of %v is queued", req)
	}
}

// TestNothingIsKeptOfALostShard: another manager changes what it is about.
func TestNothingIsKeptOfALostShard(t *testing.T) {
	now := testclock.NewFakeClock(time.Unix(1e9, 0))
	shards := byNamespace()
	sys := &forgetful{}
	s := &stacks[*v1.TrustyAIService, struct{}]{
		Engine: &Engine{
			Options: Options{Clock: now, Shards: shards}, informers: watch.New(watch.Options{Catalog: &catalog.Catalog{}}), metrics: newMetrics(now),
			inventories: inventory.New(inventory.Options{}),
			jobs: background.New(background.Options[watch.Referrer]{
				Clock: now, Namespace: func(watch.Referrer) string { return "" }, Rendering: func() {}, Done: func(watch.Referrer) {}, Log: logr.Discard(),
			}),
		},
		sys: sys, queue: &queue{backoff: backoff.NewLimiter[reconcile.Request](transientRetry, now)},
		states: map[client.ObjectKey]*reconcileState{}, conflictWaiters: map[plan.Key]map[client.ObjectKey]bool{},
		pendingReady: map[client.ObjectKey]*pendingReady[*v1.TrustyAIService]{},
	}
	mine, others := client.ObjectKey{Namespace: "mine", Name: "x"}, client.ObjectKey{Namespace: "others", Name: "x"}
	for _, key := range []client.ObjectKey{mine, others} {
		s.meet(key, "uid")
		s.stateOf(key).seenBefore = true
		s.jobs.Get(watch.Referrer{Namespace: key.Namespace, Name: key.Name}, "job", controller.Once, func(context.Context) any { return 1 })
	}
	s.dropShard(2)
	if s.states[others] != nil || s.states[mine] == nil || s.jobs.Len() != 1 || !slices.Equal(sys.forgot, []types.NamespacedName{others}) {
		t.Errorf("after the loss of a shard, the states are %v, there are %d jobs, and %v were forgotten", s.states, s.jobs.Len(), sys.forgot)
	}
}

// TestConflictsOfALostShardAreForgotten: a field that was ceded may be in the hands of MLKeeper again when the shard returns. The shard is that
// of the custom resource, wherever its objects are.
func TestConflictsOfALostShardAreForgotten(t *testing.T) {
	shards, tracker := byNamespace(), &fieldownership.Tracker{}
	informers := watch.New(watch.Options{Catalog: &catalog.Catalog{}})
	e := &Engine{
		Options: Options{Shards: shards}, actor: &act.Actor{Tracker: tracker}, inventories: inventory.New(inventory.Options{Cache: informers}),
	}
	e.watchShards()
	shards.Hold(1)
	shards.Hold(2)
	for _, owner := range []string{"mine", "others"} {
		for _, namespace := range []string{"mine", "others", ""} {
			for range fieldownership.MaxConflicts {
				tracker.Repaired(plan.Key{Namespace: namespace, Name: "of-" + owner}, "uid", types.NamespacedName{Namespace: owner, Name: "x"},
					[]fieldownership.Field{{Text: "data.k", Manager: "somebody"}}, time.Unix(1e9, 0))
			}
		}
	}
	shards.GiveAway(2)
	shards.Drop(2)
	for _, namespace := range []string{"mine", "others", ""} {
		kept := tracker.Ceded(plan.Key{Namespace: namespace, Name: "of-mine"}, "uid")
		lost := tracker.Ceded(plan.Key{Namespace: namespace, Name: "of-others"}, "uid")
		if len(kept) != 1 || len(lost) != 0 {
			t.Errorf("in namespace %q, ceded are %v for the shard that is held, and %v for the lost one", namespace, kept, lost)
		}
	}
}

// TestTheOutcomeOfAWireIsKeptBeforeTheFirstReconcile: a wire reports an outcome once, and may be faster than the reconcile of a custom
// resource when a shard is gained.
func TestTheOutcomeOfAWireIsKeptBeforeTheFirstReconcile(t *testing.T) {
	s := &stacks[*v1.TrustyAIService, struct{}]{Engine: &Engine{}, states: map[client.ObjectKey]*reconcileState{}}
	key, target := client.ObjectKey{Namespace: "ns", Name: "x"}, plan.Key{Name: "target"}
	if s.keepOutcomes(client.ObjectKey{Namespace: "ns", Name: "gone"}, false, target, []wiring.Outcome{{}}) ||
		!s.keepOutcomes(key, true, target, []wiring.Outcome{{}}) {
		t.Error("what is gone is enqueued, or what exists is not")
	}
	if state := s.states[key]; len(s.states) != 1 || state == nil || len(state.wiring) != 1 {
		t.Errorf("the states are %v", s.states)
	}
}
