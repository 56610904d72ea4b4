package engine

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/fairqueue"
	"mlkeeper.dev/internal/engine/fieldownership"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/inventory"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

// TestAHealthChangeOvertakesNewCustomResources has many new custom resources in the queue. One whose child becomes healthy or is deleted
// is reconciled before them, one whose child merely progresses is not, and a changed spec comes before all.
func TestAHealthChangeOvertakesNewCustomResources(t *testing.T) {
	work := fairqueue.New("", backoff.NewLimiter[reconcile.Request](transientRetry, clock.RealClock{}), clock.RealClock{}, 16)
	defer work.ShutDown()
	s := &stacks[*keeper.Inventory, any]{
		Engine: &Engine{Options: Options{Clock: clock.RealClock{}}, actor: &act.Actor{Tracker: &fieldownership.Tracker{}}},
		def:    controller.Definition[*keeper.Inventory]{GVK: inventory.GVK}, queue: &queue{work: work},
		states:      map[client.ObjectKey]*reconcileState{},
		unconfirmed: map[client.ObjectKey]bool{},
	}
	child := func(owner string, status health.Status) *observe.Object {
		o := &observe.Object{Key: plan.Key{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Namespace: "ns", Name: owner}}
		o.Annotations = map[string]string{keeper.OwnerAnnotation: "Inventory.keeper.mlkeeper.dev/ns/" + owner}
		o.Health.Status = status
		return o
	}
	resource := func(name string, generation int64) *keeper.Inventory {
		inv := &keeper.Inventory{}
		inv.Namespace, inv.Name, inv.Generation, inv.UID = "ns", name, generation, types.UID(name)
		return inv
	}
	s.resourceChanged(nil, resource("new", 1), false)
	s.childChanged(child("progresses", health.InProgress), child("progresses", health.InProgress))
	s.childChanged(child("healthy", health.InProgress), child("healthy", health.Current))
	s.childChanged(child("deleted", health.Current), nil)
	s.resourceChanged(resource("edited", 1), resource("edited", 2), false)

	var got []string
	for range 5 {
		request, _ := work.Get()
		got = append(got, request.Name)
	}
	if want := []string{"edited", "healthy", "deleted", "new", "progresses"}; !slices.Equal(got, want) {
		t.Errorf("the order is %v, not %v", got, want)
	}
}

// TestAChildIsKnownByEachOfItsMarks: a child that somebody gave another owner in its annotation may be deleted, and nobody else tells when it is gone.
func TestAChildIsKnownByEachOfItsMarks(t *testing.T) {
	s, _ := bareStacks()
	key, other := client.ObjectKey{Namespace: "ns", Name: "x"}, client.ObjectKey{Namespace: "ns", Name: "other"}
	for _, known := range []client.ObjectKey{key, other} {
		s.meet(known, types.UID(known.Name))
	}
	annotation := func(of client.ObjectKey) string {
		return plan.Stack{GVK: s.def.GVK, Namespace: of.Namespace, Name: of.Name}.ID()
	}
	for name, c := range map[string]struct {
		annotation, label string
		want              []client.ObjectKey
	}{
		"both":               {annotation(key), s.hashOf(key), []client.ObjectKey{key}},
		"another annotation": {"somebody", s.hashOf(key), []client.ObjectKey{key}},
		"another of the two": {annotation(other), s.hashOf(key), []client.ObjectKey{other, key}},
		"a name of nobody":   {annotation(key) + "-changed", s.hashOf(key), []client.ObjectKey{{Namespace: "ns", Name: "x-changed"}, key}},
		"another label":      {annotation(key), "somebody", []client.ObjectKey{key}},
		"of another kind":    {"Deployment.apps/ns/x", "somebody", nil},
	} {
		o := &observe.Object{}
		o.Annotations, o.Labels = map[string]string{keeper.OwnerAnnotation: c.annotation}, map[string]string{keeper.StackLabel: c.label}
		if got := s.claimedBy(o); !slices.Equal(got, c.want) {
			t.Errorf("%s: it is of %v, not of %v", name, got, c.want)
		}
	}
}
