package fieldownership

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"mlkeeper.dev/internal/engine/plan"
)

// owner is the custom resource that declares the objects.
var owner = types.NamespacedName{Namespace: "n", Name: "x"}

func TestInvariant11CededAfterThreeConflictsInTenMinutes(t *testing.T) {
	var tracker Tracker
	k := plan.Key{Namespace: "n", Name: "d"}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	replicas := path("spec", "replicas")
	step := func(after time.Duration, uid types.UID, f Field, want int) {
		t.Helper()
		now = now.Add(after)
		if got := tracker.Repaired(k, uid, owner, []Field{f}, now); len(got) != want {
			t.Fatalf("at %s: ceded %v, want %d", now, got, want)
		}
	}
	step(0, "u", replicas, 0)
	step(9*time.Minute, "u", replicas, 0)
	step(2*time.Minute, "u", replicas, 0) // The first is out of the window.
	step(time.Minute, "u", Field{Path: replicas.Path, Text: replicas.Text, Manager: "another"}, 0)
	step(time.Minute, "u", replicas, 1)
	step(time.Second, "u", replicas, 0) // Told once.
	if got := tracker.Ceded(k, "u"); len(got) != 1 || got[0].Manager != "other" {
		t.Fatalf("ceded: %v", got)
	}
	if got := tracker.Ceded(k, "v"); got != nil {
		t.Fatalf("another object under the name: %v", got)
	}
	step(0, "v", replicas, 0) // The replacement starts anew.
	if got := tracker.Ceded(k, "u"); got != nil {
		t.Fatalf("the object that is gone: %v", got)
	}
	step(0, "v", replicas, 0)
	step(0, "v", replicas, 1)
	tracker.Forget(k)
	if got := tracker.Ceded(k, "v"); got != nil {
		t.Fatalf("after Forget: %v", got)
	}
}

func TestInvariant11AFailedRepairIsNoConflict(t *testing.T) {
	var tracker Tracker
	k, fields, now := plan.Key{Name: "d"}, []Field{path("spec", "replicas")}, time.Unix(0, 0)
	for range 5 {
		tracker.Repaired(k, "u", owner, fields, now)
		tracker.Undo(k, "u", fields)
	}
	tracker.Undo(k, "u", fields)
	tracker.Undo(k, "v", fields)
	if got := tracker.Ceded(k, "u"); got != nil {
		t.Fatalf("ceded by attempts alone: %v", got)
	}
	for range 2 {
		tracker.Repaired(k, "u", owner, fields, now)
	}
	if got := tracker.Repaired(k, "u", owner, fields, now); len(got) != 1 {
		t.Fatalf("three conflicts: %v", got)
	}
}

// TestInvariant11ARepairThatFailedLeavesPlaceForOthers: as many fields as are counted of one object, and one more.
func TestInvariant11ARepairThatFailedLeavesPlaceForOthers(t *testing.T) {
	var tracker Tracker
	k, now := plan.Key{Name: "cm"}, time.Unix(0, 0)
	var fields []Field
	for i := range maxFields {
		fields = append(fields, path("data", fmt.Sprintf("k%d", i)))
	}
	tracker.Repaired(k, "u", owner, fields, now)
	tracker.Undo(k, "u", fields)
	another := path("data", "another")
	for i := range MaxConflicts {
		if got := tracker.Repaired(k, "u", owner, []Field{another}, now); (len(got) == 1) != (i == MaxConflicts-1) {
			t.Fatalf("conflict %d: ceded %v", i+1, got)
		}
	}
	// One that is counted longer keeps what it had before the repair that failed.
	tracker.Undo(k, "u", []Field{another})
	if got := tracker.Repaired(k, "u", owner, []Field{another}, now); len(got) != 1 {
		t.Errorf("the third conflict again: ceded %v", got)
	}
}

func TestInvariant11OwnMarksAreNeverCeded(t *testing.T) {
	var tracker Tracker
	marks := []Field{
		path("metadata", "labels", "keeper.mlkeeper.dev/controller"), path("metadata", "annotations", "keeper.mlkeeper.dev/applied-hash"),
		path("metadata", "ownerReferences", key("uid", "u")),
	}
	for range 5 {
		if got := tracker.Repaired(plan.Key{}, "u", owner, marks, time.Unix(0, 0)); got != nil {
			t.Fatalf("ceded: %v", got)
		}
	}
	for range 3 {
		tracker.Repaired(plan.Key{}, "u", owner, []Field{path("metadata", "labels", "app")}, time.Unix(0, 0))
	}
	if got := tracker.Ceded(plan.Key{}, "u"); len(got) != 1 {
		t.Fatalf("ceded: %v", got)
	}
}

func TestTrackerForgetsWhatIsOldest(t *testing.T) {
	var tracker Tracker
	at := time.Unix(0, 0)
	f := []Field{path("spec", "replicas")}
	for range MaxConflicts {
		tracker.Repaired(plan.Key{Name: "ceded"}, "u", owner, f, at)
	}
	for i := range maxObjects + 100 {
		tracker.Repaired(plan.Key{Name: fmt.Sprint(i)}, "u", owner, f, at.Add(time.Duration(i+1)))
	}
	if n := len(tracker.objects); n != maxObjects {
		t.Errorf("%d objects", n)
	}
	if tracker.Ceded(plan.Key{Name: "ceded"}, "u") == nil {
		t.Error("forgot a ceded object before those without a ceded field")
	}
	if tracker.objects[plan.Key{Name: fmt.Sprint(maxObjects + 99)}] == nil || tracker.objects[plan.Key{Name: "0"}] != nil {
		t.Error("forgot the newest, not the oldest")
	}
	many := make([]Field, 0, 2*maxFields)
	for i := range 2 * maxFields {
		many = append(many, path("data", fmt.Sprint(i)))
	}
	k := plan.Key{Name: "many"}
	tracker.Repaired(k, "u", owner, many, at)
	if n := len(tracker.objects[k].fields); n != maxFields {
		t.Errorf("%d fields", n)
	}
	tracker.Repaired(k, "u", owner, many[maxFields:], at.Add(Window+1))
	if tracker.objects[k].fields[managedField{many[maxFields].Text, "other"}] == nil {
		t.Error("fields out of the window are not dropped")
	}
}

func TestTrackerIsConcurrencySafe(*testing.T) {
	var tracker Tracker
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			k := plan.Key{Name: fmt.Sprint(i % 3)}
			for range 100 {
				tracker.Repaired(k, "u", owner, []Field{path("spec", "replicas")}, time.Unix(0, 0))
				tracker.Ceded(k, "u")
				tracker.Forget(k)
			}
		})
	}
	wg.Wait()
}
