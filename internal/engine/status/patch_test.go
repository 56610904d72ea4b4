package status

import (
	"encoding/json"
	"reflect"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

func drawInventory(t *rapid.T) *keeper.Inventory {
	inv := &keeper.Inventory{}
	inv.Name, inv.UID, inv.Generation = "n", "u", rapid.Int64Range(1, 9).Draw(t, "generation")
	inv.Labels = rapid.MapOfN(rapid.StringN(1, 3, 9), rapid.String(), 0, 2).Draw(t, "labels")
	for range rapid.IntRange(0, 3).Draw(t, "objects") {
		e := keeper.InventoryEntry{UID: types.UID(rapid.String().Draw(t, "uid")), AppliedHash: rapid.String().Draw(t, "digest")}
		e.Name = rapid.String().Draw(t, "name")
		inv.Status.Entries = append(inv.Status.Entries, e)
	}
	return inv
}

// TestAStatusFollowsFromTheOneThatIsStored: the difference to a status says nothing of another.
func TestAStatusFollowsFromTheOneThatIsStored(t *testing.T) {
	before := &keeper.Inventory{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "7"}}
	patch, err := Patch(before, before, Preconditions(before))
	if want := `{"metadata":{"resourceVersion":"7","uid":"u"}}`; err != nil || string(patch) != want {
		t.Errorf("%s, not %s: %v", patch, want, err)
	}
}

func TestPatchWritesTheStatusAndNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := drawInventory(t), drawInventory(t)
		patch, err := Patch(before, after, map[string]any{"uid": "u"})
		if err != nil {
			t.Fatal(err)
		}
		var parts map[string]any
		if err := json.Unmarshal(patch, &parts); err != nil {
			t.Fatal(err)
		}
		for key := range parts {
			if key != "status" && key != "metadata" {
				t.Fatalf("the patch has %q: %s", key, patch)
			}
		}
		if !reflect.DeepEqual(parts["metadata"], map[string]any{"uid": "u"}) {
			t.Fatalf("the patch is not guarded by the UID alone: %s", patch)
		}
		raw, _ := json.Marshal(before)
		merged, err := jsonpatch.MergePatch(raw, patch)
		if err != nil {
			t.Fatal(err)
		}
		got := &keeper.Inventory{}
		if err := json.Unmarshal(merged, got); err != nil {
			t.Fatal(err)
		}
		want := before.DeepCopy()
		want.Status = after.Status
		if !equality.Semantic.DeepEqual(got, want) {
			t.Fatalf("%+v, wanted %+v", got, want)
		}
	})
}
