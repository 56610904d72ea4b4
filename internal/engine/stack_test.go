package engine

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/fieldownership"
	"mlkeeper.dev/internal/engine/inventory"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

// TestADefinitionIsAskedForByItsName has a kind whose plural nobody guesses. A definition of another name is not found, for which the
// teardown would remove everything of every custom resource (invariant 4).
func TestADefinitionIsAskedForByItsName(t *testing.T) {
	def := controller.Definition[*keeper.Inventory]{
		Controller: "servers", GVK: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Chassis"}, Resource: "chassis",
	}
	s := &stacks[*keeper.Inventory, any]{def: def}
	if got := s.groupResource().String(); got != "chassis.example.com" {
		t.Errorf("asked for is %s", got)
	}
	def.Resource = ""
	if err := Register[*keeper.Inventory, any](&Engine{}, def, nil); err == nil {
		t.Error("a controller that names no resource is registered")
	}
}

// TestAJobThatWentAtOnceHasCompleted has a Job whose ttlSecondsAfterFinished is zero: no reconciliation need have seen it complete. What
// is remembered of it stays until the inventory has it, or its custom resource is gone.
func TestAJobThatWentAtOnceHasCompleted(t *testing.T) {
	owner := client.ObjectKey{Namespace: "ns", Name: "x"}
	s := &stacks[*keeper.Inventory, any]{
		Engine: &Engine{actor: &act.Actor{Tracker: &fieldownership.Tracker{}}},
		def:    controller.Definition[*keeper.Inventory]{GVK: inventory.GVK},
		queue:  &queue{}, states: map[client.ObjectKey]*reconcileState{},
	}
	job := func(name, uid string, completed bool) *observe.Object {
		o := &observe.Object{Key: plan.Key{GroupKind: schema.GroupKind{Group: "batch", Kind: "Job"}, Namespace: "ns", Name: name}, Completed: completed}
		o.UID, o.Annotations = types.UID(uid), map[string]string{keeper.OwnerAnnotation: "Inventory.keeper.mlkeeper.dev/ns/x"}
		return o
	}
	done, running := job("done", "1", true), job("running", "2", false)
	s.childChanged(done, nil)
	if len(s.states) > 0 {
		t.Error("a Job is remembered of a custom resource that nobody knows")
	}
	state := s.stateOf(owner)
	s.childChanged(job("done", "1", false), done)
	if s.completed(state, done.Key, "1", false) {
		t.Error("a Job that is there is remembered")
	}
	s.childChanged(done, nil)
	s.childChanged(running, nil)
	for range 2 {
		if !s.completed(state, done.Key, "1", false) {
			t.Error("a Job that had completed when it went is not known")
		}
	}
	if s.completed(state, done.Key, "another", false) || s.completed(state, running.Key, "2", false) {
		t.Error("a Job that had not completed counts as completed")
	}
	if !s.completed(state, done.Key, "1", true) || len(state.finished) > 0 {
		t.Errorf("what the inventory has is remembered beside it: %v", state.finished)
	}
}

// TestCededFieldsEndWithTheirChild: what another manager retook of an object is of no use when that is gone.
func TestCededFieldsEndWithTheirChild(t *testing.T) {
	s := &stacks[*keeper.Inventory, any]{
		Engine: &Engine{actor: &act.Actor{Tracker: &fieldownership.Tracker{}}},
		def:    controller.Definition[*keeper.Inventory]{GVK: inventory.GVK},
	}
	child := &observe.Object{Key: plan.Key{GroupKind: schema.GroupKind{Kind: "Service"}, Namespace: "ns", Name: "x"}}
	child.UID = "1"
	for range fieldownership.MaxConflicts {
		s.actor.Tracker.Repaired(child.Key, child.UID, types.NamespacedName{}, []fieldownership.Field{{Text: "spec.type", Manager: "rival"}}, time.Now())
	}
	s.childChanged(child, child)
	if len(s.actor.Tracker.Ceded(child.Key, child.UID)) != 1 {
		t.Fatal("a field that was taken back is not ceded")
	}
	s.childChanged(child, nil)
	if left := s.actor.Tracker.Ceded(child.Key, child.UID); len(left) > 0 {
		t.Errorf("%v of a child that is gone are remembered", left)
	}
}

// TestACededFieldIsReportedAfterAFailOver: the manager that ceded it wrote so into the inventory, and the next one finds nothing to write.
func TestACededFieldIsReportedAfterAFailOver(t *testing.T) {
	s, _ := bareStacks()
	s.actor = &act.Actor{Tracker: &fieldownership.Tracker{}}
	key := plan.Key{GroupKind: schema.GroupKind{Kind: "Service"}, Namespace: "a", Name: "x"}
	p := passOf("a", newState("uid"), "")
	p.actions = []decide.Action{{Verb: decide.Leave, Key: key, Object: plan.Stamped{Key: key, Digest: "d"}}}
	p.entries = map[plan.Key]keeper.InventoryEntry{key: {
		AppliedHash: "d", LeftOut: []string{act.CededField + "spec.type to somebody", act.IgnoredField + "/spec/x", "an undeclared field"},
	}}
	s.conflicts(p)
	if len(p.ceded) != 1 || p.ceded[0].Object != key || p.ceded[0].Text != "spec.type" || p.ceded[0].Manager != "somebody" {
		t.Errorf("ceded are %v", p.ceded)
	}
	if len(p.warnings) != 1 || !strings.HasSuffix(p.warnings[0], "an undeclared field") {
		t.Errorf("warned is of %q", p.warnings)
	}
}

// TestTheEventOfOurOwnStatusWriteEnqueuesNothing: the write has changed nothing that the next reconciliation would read.
func TestTheEventOfOurOwnStatusWriteEnqueuesNothing(t *testing.T) {
	work := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer work.ShutDown()
	s := &stacks[*keeper.Inventory, any]{queue: &queue{work: work}, states: map[client.ObjectKey]*reconcileState{}}
	state := func(version string) *keeper.Inventory {
		return &keeper.Inventory{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x", ResourceVersion: version}}
	}
	s.stateOf(client.ObjectKey{Namespace: "ns", Name: "x"}).statusVersion = "5"
	s.resourceChanged(state("4"), state("5"), false)
	if work.Len() != 0 {
		t.Error("our own write enqueues the custom resource")
	}
	s.resourceChanged(state("5"), state("6"), false)
	if work.Len() != 1 {
		t.Error("a write of others does not enqueue the custom resource")
	}
}
