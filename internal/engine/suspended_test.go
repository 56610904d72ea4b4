package engine

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
)

// TestWhatIsSuspendedStays: nothing of a suspended stage is pruned, not even what a stage of its hooks had that the plan no longer has,
// wherever the stages were; and an object is left as it is although it is in a stage with others.
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
	object := plan.Object{Desired: &unstructured.Unstructured{Object: map[string]any{"kind": "ConfigMap"}}}
	suspended := object
	suspended.Suspended = true
	actions := []decide.Action{
		{Verb: decide.Apply, Object: plan.Stamped{Object: object}}, {Verb: decide.Apply, Object: plan.Stamped{Object: suspended}},
		{Verb: decide.Apply, Object: plan.Stamped{Object: object, Stage: 1}},
	}
	leaveSuspended([]plan.Stage{{Name: "definitions"}, {Name: "core", Suspended: true}}, actions)
	for i, want := range []decide.Verb{decide.Apply, decide.Leave, decide.Leave} {
		if actions[i].Verb != want {
			t.Errorf("action %d is %s, want %s", i, actions[i].Verb, want)
		}
	}
}
