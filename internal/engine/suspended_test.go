package engine

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/reader"
	"mlkeeper.dev/internal/engine/status"
)

// TestWhatIsSuspendedStays: nothing of a suspended stage is pruned, not even what a stage of its hooks had that the plan no longer has,
// wherever the stages were.
func TestWhatIsSuspendedStays(t *testing.T) {
	listing := func(stage, name string, number int32) *keeper.Inventory {
		inv := &keeper.Inventory{}
		inv.Spec.StageName, inv.Spec.Stage = stage, number
		inv.Spec.Entries = []keeper.InventoryEntry{{ObjectReference: keeper.ObjectReference{Version: "v1", Kind: "ConfigMap", Namespace: "n", Name: name}}}
		return inv
	}
	desired := map[plan.Key]bool{}
	keepListed([]*keeper.Inventory{
		listing("core-before", "hook", 0), listing("core", "own", 2000), listing("analytics", "other", 1000), listing("corex", "another", 7),
	}, "core", desired)
	key := func(name string) plan.Key {
		return plan.Key{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "n", Name: name}
	}
	if len(desired) != 2 || !desired[key("hook")] || !desired[key("own")] {
		t.Errorf("what stays is %v", desired)
	}
}

// TestWhatIsSuspendedIsNotWritten: the definitions of a suspended component are in a stage that is not suspended. Reports go on, and so do deletions of
// what the plan no longer has, which keepListed bounds.
func TestWhatIsSuspendedIsNotWritten(t *testing.T) {
	stages := []plan.Stage{{Name: "definitions"}, {Name: "core", Suspended: true}}
	in := func(stage int, suspended bool) plan.Stamped {
		return plan.Stamped{Object: plan.Object{Desired: &unstructured.Unstructured{}, Suspended: suspended}, Stage: stage}
	}
	for name, c := range map[string]struct {
		verb   decide.Verb
		object plan.Stamped
		leaves bool
	}{
		"an object of a suspended stage":             {decide.Apply, in(1, false), true},
		"a suspended object of another stage":        {decide.Apply, in(0, true), true},
		"a suspended object that is to be created":   {decide.Create, in(0, true), true},
		"an object beside a suspended one":           {decide.Apply, in(0, false), false},
		"a suspended object that is to be recreated": {decide.Delete, in(0, true), true},
		"a suspended object of another owner":        {decide.Conflict, in(0, true), false},
		"an object that the plan no longer has":      {decide.Delete, plan.Stamped{Stage: 1}, false},
	} {
		actions := []decide.Action{{Verb: c.verb, Reason: "before", Object: c.object}}
		leaveSuspended(stages, actions)
		if left := actions[0].Verb == decide.Leave && actions[0].Reason == decide.ReasonSuspended; left != c.leaves {
			t.Errorf("%s: %s for %s", name, actions[0].Verb, actions[0].Reason)
		}
	}
}

// TestASuspensionKeepsTheInventory: the status that was held when the custom resource was suspended lists children that exist.
func TestASuspensionKeepsTheInventory(t *testing.T) {
	s, _ := bareStacks()
	p := passOf("a", newState("uid"), "")
	p.cr, p.reader = p.before.DeepCopy(), &reader.Reader{}
	p.cr.Annotations = map[string]string{keeper.SuspendAnnotation: "true"}
	p.state.pendingStatus = &keeper.ResourceInventory{Entries: []keeper.InventoryEntry{{UID: "child"}}}
	if _, err := s.suspended(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got := p.cr.Status.Inventory.Entries; len(got) != 1 || got[0].UID != "child" {
		t.Errorf("the inventory is %v", got)
	}
}

// TestASuspensionSealsTheInventory: what a release before has recorded is not left as it is until somebody ends the suspension.
func TestASuspensionSealsTheInventory(t *testing.T) {
	s, _ := bareStacks()
	p := passOf("a", newState("uid"), "")
	p.cr, p.reader = p.before.DeepCopy(), &reader.Reader{}
	p.cr.Annotations = map[string]string{keeper.SuspendAnnotation: "true"}
	p.cr.Status.Inventory.Entries = []keeper.InventoryEntry{{UID: "child", AppliedHash: "abc", OwnedFieldsHash: "def"}}
	if _, err := s.suspended(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got := p.cr.Status.Inventory.Entries; len(got) != 1 || got[0].UID != "child" || got[0].AppliedHash == "abc" || got[0].OwnedFieldsHash == "def" {
		t.Errorf("the inventory is %v", got)
	}
}

// TestAFailedGatherKeepsTheInventory: the next status replaces the one that was held, which lists children that exist.
func TestAFailedGatherKeepsTheInventory(t *testing.T) {
	s, _ := readingStacks()
	s.sys = projecting{func() {}}
	p := passOf("a", newState("uid"), "")
	p.cr, p.reader = p.before.DeepCopy(), s.readers.New(reader.Request{})
	p.state.pendingStatus = &keeper.ResourceInventory{Entries: []keeper.InventoryEntry{{UID: "child"}}}
	p.gatherFailed, p.problems = true, []plan.Problem{{Class: plan.Waiting, Reason: "Missing"}}
	if _, err := s.report(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got := p.cr.Status.Inventory.Entries; len(got) != 1 || got[0].UID != "child" {
		t.Errorf("the inventory is %v", got)
	}
}

// TestTheStatusOfASuspendedIsRepairedAfterAPause: nothing else looks at it again.
func TestTheStatusOfASuspendedIsRepairedAfterAPause(t *testing.T) {
	s, clock := bareStacks()
	state := newState("uid")
	for range 6 {
		state.rewrites.Again(backoff.TakenBack, clock.Now())
	}
	pass := func() reconcile.Result {
		t.Helper()
		p := passOf("a", state, "")
		p.cr, p.reader = p.before.DeepCopy(), &reader.Reader{}
		p.cr.Annotations = map[string]string{keeper.SuspendAnnotation: "true"}
		result, err := s.suspended(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if state.written, err = status.Sum(p.cr); err != nil {
			t.Fatal(err)
		}
		return result
	}
	pass()
	if result := pass(); !state.rewrites.Waits(clock.Now()) || result.RequeueAfter != state.rewrites.Due().Sub(clock.Now()) {
		t.Errorf("it is looked at again after %s", result.RequeueAfter)
	}
}

// TestALongRequestIsRecordedInPart: the schema bounds what the status says of it, and a status that is refused tells nothing at all.
func TestALongRequestIsRecordedInPart(t *testing.T) {
	for at, want := range map[string]string{
		"2026-01-02T03:04:05Z": "2026-01-02T03:04:05Z", strings.Repeat("x", 64): strings.Repeat("x", 64), strings.Repeat("x", 65): strings.Repeat("x", 61) + "...",
	} {
		s, _ := bareStacks()
		p := passOf("a", newState("uid"), "")
		p.cr, p.reader = p.before.DeepCopy(), &reader.Reader{}
		p.cr.Annotations = map[string]string{keeper.SuspendAnnotation: "true", keeper.ReconcileAtAnnotation: at}
		if _, err := s.suspended(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if got := *s.def.Common(p.cr).LastHandledReconcileAt; got != want {
			t.Errorf("of %q the status has %q", at, got)
		}
	}
}
