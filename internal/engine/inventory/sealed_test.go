package inventory

import (
	"reflect"
	"testing"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/engine/observe"
)

func TestOpenAndSeal(t *testing.T) {
	sealer, another := digest.Key{1}.Sealer("uid"), digest.Key{2}.Sealer("uid")
	plain := keeper.InventoryEntry{UID: "u", AppliedHash: "declared", OwnedFieldsHash: "owned"}
	entries := []keeper.InventoryEntry{plain, {UID: "new"}}
	Seal(sealer, entries)
	stored := entries[0]
	if stored.AppliedHash == "declared" || stored.OwnedFieldsHash == "owned" || stored.UID != "u" || !reflect.DeepEqual(entries[1], keeper.InventoryEntry{UID: "new"}) {
		t.Fatalf("sealed are %+v", entries)
	}
	seen := &observe.Object{OwnedFieldsHash: "owned"}
	seen.Annotations = map[string]string{keeper.AppliedHashAnnotation: "observed"}
	if got := Open(sealer, stored, "declared", seen); !reflect.DeepEqual(got, plain) {
		t.Errorf("opened is %+v", got)
	}
	if got := Open(sealer, plain, "declared", seen); !reflect.DeepEqual(got, plain) {
		t.Errorf("what a release before has recorded is %+v", got)
	}
	was := []keeper.InventoryEntry{{AppliedHash: "observed"}}
	Seal(sealer, was)
	if got := Open(sealer, was[0], "declared", seen); got.AppliedHash != "observed" {
		t.Errorf("what is there as it was written last is %+v", got)
	}
	for name, got := range map[string]keeper.InventoryEntry{
		"another declaration": Open(sealer, stored, "changed", nil), "another key": Open(another, stored, "declared", seen),
	} {
		if !reflect.DeepEqual(got, stored) {
			t.Errorf("%s: opened is %+v", name, got)
		}
	}
}

// TestACompletedJobIsNotRunAgainForAnotherKey: nothing tells what a Job was declared as that is gone. Of one that is there its annotation does.
func TestACompletedJobIsNotRunAgainForAnotherKey(t *testing.T) {
	sealer, another := digest.Key{1}.Sealer("uid"), digest.Key{2}.Sealer("uid")
	entries := []keeper.InventoryEntry{{UID: "u", AppliedHash: "before", Completed: true}}
	Seal(another, entries)
	if got := Open(sealer, entries[0], "now", nil); got.AppliedHash != "now" {
		t.Errorf("a Job that completed is recorded as %q", got.AppliedHash)
	}
	if got := Open(sealer, entries[0], "now", &observe.Object{}); got.AppliedHash == "now" {
		t.Error("a Job that is there counts as declared")
	}
	entries[0].Completed = false
	if got := Open(sealer, entries[0], "now", nil); got.AppliedHash == "now" {
		t.Error("what did not complete counts as declared")
	}
	mine := []keeper.InventoryEntry{{AppliedHash: "before", Completed: true}}
	Seal(sealer, mine)
	if got := Open(sealer, mine[0], "now", nil); got.AppliedHash == "now" {
		t.Error("a Job that is declared anew does not run")
	}
}
