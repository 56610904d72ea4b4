package inventory

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

// TestMerge: the results of the writes in the status of an Inventory take precedence over its spec, and both over the status of the
// custom resource, which users can write.
func TestMerge(t *testing.T) {
	entry := func(name, digest string) keeper.InventoryEntry {
		return keeper.InventoryEntry{ObjectReference: keeper.ObjectReference{Version: "v1", Kind: "Secret", Name: name}, AppliedHash: digest}
	}
	inv := &keeper.Inventory{}
	inv.Spec.Entries = []keeper.InventoryEntry{entry("listed", "spec"), entry("written", "spec")}
	inv.Status.Entries = []keeper.InventoryEntry{entry("written", "status")}
	merged := Merge([]keeper.InventoryEntry{entry("listed", "user"), entry("own", "user")}, []*keeper.Inventory{inv})
	want := map[string]string{"listed": "spec", "written": "status", "own": "user"}
	if len(merged) != len(want) {
		t.Errorf("%d entries", len(merged))
	}
	for key, e := range merged {
		if e.AppliedHash != want[e.Name] || key != plan.KeyOfEntry(e) {
			t.Errorf("%s has the entry %+v", key, e)
		}
	}
}

// TestAnEntryTellsOfARun: a Job that had completed when it was written again causes no event that would tell so. What a hook was run for is recorded within
// the limit of the schema; a chart may have any text there.
func TestAnEntryTellsOfARun(t *testing.T) {
	long := strings.Repeat("x", 129)
	for _, c := range []struct {
		run             string
		hook, completed bool
		want            string
	}{
		{"one", true, true, "one"},
		{"one", true, false, "one"},
		{"one", false, true, ""},
		{long[1:], true, true, long[1:]},
		{long, true, true, ""},
	} {
		o := plan.Stamped{Object: plan.Object{Hook: c.hook, Desired: &unstructured.Unstructured{}}}
		o.Desired.SetAnnotations(map[string]string{keeper.RunAnnotation: c.run})
		if e := EntryOf(o, &observe.Object{Completed: c.completed}, nil); e.Run != c.want || e.Completed != c.completed {
			t.Errorf("%+v: %+v", c, e)
		}
	}
}

// TestLeftOutIsLimited has more of them, and longer ones, than the schema takes.
func TestLeftOutIsLimited(t *testing.T) {
	for _, c := range []struct{ given, want int }{{0, 0}, {1, 1}, {maxLeftOut, maxLeftOut}, {maxLeftOut + 1, maxLeftOut}, {100, maxLeftOut}} {
		got := truncate(slices.Repeat([]string{strings.Repeat("ä", maxLeftOutLength)}, c.given))
		if len(got) != c.want {
			t.Errorf("of %d warnings %d are kept", c.given, len(got))
		}
		for _, w := range got {
			if len(w) > maxLeftOutLength {
				t.Errorf("one has %d bytes", len(w))
			}
		}
		if last := fmt.Sprintf("and %d more", c.given-maxLeftOut+1); c.given > maxLeftOut && got[maxLeftOut-1] != last {
			t.Errorf("the last of %d is %q", c.given, got[maxLeftOut-1])
		}
	}
}
