package decide

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
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
	KeepListed([]*keeper.Inventory{
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
// what the plan no longer has, which KeepListed bounds.
func TestWhatIsSuspendedIsNotWritten(t *testing.T) {
	stages := []plan.Stage{{Name: "definitions"}, {Name: "core", Suspended: true}}
	in := func(stage int, suspended bool) plan.Stamped {
		return plan.Stamped{Object: plan.Object{Desired: &unstructured.Unstructured{}, Suspended: suspended}, Stage: stage}
	}
	for name, c := range map[string]struct {
		verb   Verb
		object plan.Stamped
		leaves bool
	}{
		"an object of a suspended stage":             {Apply, in(1, false), true},
		"a suspended object of another stage":        {Apply, in(0, true), true},
		"a suspended object that is to be created":   {Create, in(0, true), true},
		"an object beside a suspended one":           {Apply, in(0, false), false},
		"a suspended object that is to be recreated": {Delete, in(0, true), true},
		"a suspended object of another owner":        {Conflict, in(0, true), false},
		"an object that the plan no longer has":      {Delete, plan.Stamped{Stage: 1}, false},
	} {
		actions := []Action{{Verb: c.verb, Reason: "before", Object: c.object}}
		LeaveSuspended(stages, actions)
		if left := actions[0].Verb == Leave && actions[0].Reason == ReasonSuspended; left != c.leaves {
			t.Errorf("%s: %s for %s", name, actions[0].Verb, actions[0].Reason)
		}
	}
}

// TestWhatMayBeReplacedStaysUntilThatExists: the new object of a stage waits for another stage, and what that stage no longer has stays. That of other
// stages goes, and so does what an object waits for itself.
func TestWhatMayBeReplacedStaysUntilThatExists(t *testing.T) {
	keyOf := func(name string) plan.Key {
		return plan.Key{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "a", Name: name}
	}
	for name, c := range map[string]struct {
		reason    string
		hold      string
		suspended bool
		want      Verb
	}{
		"it waits for another stage": {reason: ReasonDependency, want: Wait},
		"it is suspended":            {reason: ReasonDependency, suspended: true, want: Delete},
		"it waits for the pruning":   {reason: ReasonDependency, hold: "the autoscaler to be gone", want: Delete},
		"its name is being deleted":  {reason: ReasonTerminating, want: Delete},
	} {
		stages := []plan.Stage{{Name: "one"}, {Name: "two", Suspended: c.suspended}}
		var inventories []*keeper.Inventory
		for _, stage := range []string{"one", "two"} {
			inv := &keeper.Inventory{}
			inv.Spec.StageName = stage
			inv.Spec.Entries = []keeper.InventoryEntry{{ObjectReference: keeper.ObjectReference{Kind: "ConfigMap", Namespace: "a", Name: "old-" + stage}}}
			inventories = append(inventories, inv)
		}
		waits := plan.Stamped{Object: plan.Object{Desired: &unstructured.Unstructured{}, Hold: c.hold}, Stage: 1}
		actions := []Action{
			{Verb: Wait, Reason: c.reason, Key: keyOf("new"), Object: waits},
			{Verb: Delete, Reason: ReasonPruned, Key: keyOf("old-one")},
			{Verb: Delete, Reason: ReasonPruned, Key: keyOf("old-two")},
			{Verb: Delete, Reason: ReasonPruned, Key: keyOf("of-a-status")},
		}
		HoldReplaced(StagesThatKeep(stages, actions, nil), actions, inventories)
		if actions[1].Verb != Delete || actions[2].Verb != c.want || actions[3].Verb != c.want {
			t.Errorf("%s: what another stage no longer has is to %s, what its own has not to %s, and what may be of any to %s",
				name, actions[1].Verb, actions[2].Verb, actions[3].Verb)
		}
	}
}
