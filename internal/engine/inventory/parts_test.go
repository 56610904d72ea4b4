package inventory

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

// etcdLimit is the size of a request that etcd refuses by default (--max-request-bytes).
const etcdLimit = 1536 << 10

// many are objects with names as long as they may be; the characters are those of a kind that allows any, which JSON escapes.
func many(n int, character string) []plan.Object {
	out := make([]plan.Object, 0, n)
	for i := range n {
		number := fmt.Sprintf("%08d", i)
		out = append(out, object("ClusterRole", "", strings.Repeat(character, 245)+number))
	}
	return out
}

// recorded is the entry of an object after its write, with fields as long as they may be.
func recorded(o plan.Object, leftOut int) keeper.InventoryEntry {
	e := listed(o)
	e.UID, e.AppliedHash, e.OwnedFieldsHash = types.UID(strings.Repeat("u", 64)), strings.Repeat("a", 128), strings.Repeat("o", 128)
	e.Completed, e.Policy = true, keeper.Orphan
	e.LeftOut = slices.Repeat([]string{strings.Repeat("<", maxLeftOutLength)}, leftOut)
	return e
}

// stampedOf is a plan as Record takes it.
func stampedOf(p plan.Plan) (out [][]plan.Stamped) {
	for _, stage := range p.Stages {
		var of []plan.Stamped
		for _, o := range stage.Objects {
			of = append(of, plan.Stamped{Key: o.Key()})
		}
		out = append(out, of)
	}
	return out
}

// TestAnInventoryIsNeverTooLarge: whatever the names, and whatever was left out of the objects, no Inventory exceeds what etcd accepts. Each
// object is listed once, and nothing is written twice.
func TestAnInventoryIsNeverTooLarge(t *testing.T) {
	for name, objects := range map[string][]plan.Object{
		"long names": many(3000, "n"), "escaped names": many(3000, "<"), "many": many(5*maxEntries, "n"),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			p := stages([]plan.Object{object("ClusterRole", "", "first")}, objects)
			f.ensure(p, nil)
			f.observe()
			entries := []keeper.InventoryEntry{recorded(p.Stages[0].Objects[0], 1)}
			for _, o := range objects {
				entries = append(entries, recorded(o, maxLeftOut))
			}
			if _, err := f.Record(t.Context(), f.Of("uid-x"), p.Stages, stampedOf(p), entries); err != nil {
				t.Fatal(err)
			}
			f.observe()
			invs, seen := f.Of("uid-x"), map[plan.Key]int{}
			if len(invs) < 4 || invs[0].Spec.Stage != 0 || invs[1].Spec.Part != 0 || invs[2].Spec.Part != 1 {
				t.Fatalf("%d Inventories", len(invs))
			}
			for _, inv := range invs {
				raw, err := json.Marshal(inv)
				if err != nil || len(raw) > etcdLimit {
					t.Errorf("%s has %d entries in %d bytes: %v", inv.Name, len(inv.Spec.Entries), len(raw), err)
				}
				if len(inv.Status.Entries) != len(inv.Spec.Entries) {
					t.Errorf("%s lists %d objects and records %d", inv.Name, len(inv.Spec.Entries), len(inv.Status.Entries))
				}
				for _, e := range inv.Status.Entries {
					if len(e.LeftOut) == 0 {
						t.Fatalf("%s does not tell that something was left out of %s", inv.Name, e.Name)
					}
					if inv.Spec.StageName == "stage-1" {
						seen[plan.KeyOfEntry(e)]++
					}
				}
			}
			if len(seen) != len(objects) {
				t.Errorf("%d of %d objects are listed once", len(seen), len(objects))
			}
			// What is recorded stays as it is.
			before := f.writes()
			f.ensure(p, invs)
			var again []keeper.InventoryEntry
			for _, e := range Entries(invs) {
				again = append(again, e)
			}
			slices.SortFunc(again, func(a, b keeper.InventoryEntry) int {
				return strings.Compare(plan.KeyOfEntry(a).String(), plan.KeyOfEntry(b).String())
			})
			if _, err := f.Record(t.Context(), invs, p.Stages, stampedOf(p), again); err != nil {
				t.Fatal(err)
			}
			if n := f.writes() - before; n > 0 {
				t.Errorf("%d writes of what is recorded", n)
			}
		})
	}
}

// TestAnObjectStaysInItsInventory: the Inventory that lists an object owns it, so that objects that come and go move no other.
func TestAnObjectStaysInItsInventory(t *testing.T) {
	f := newFixture(t)
	all := many(2*maxEntries, "n")
	f.ensure(stages(all[maxEntries/2:]), nil)
	f.observe()
	before := Listing(f.Of("uid-x"))
	f.ensure(stages(all), f.Of("uid-x"))
	f.observe()
	after := Listing(f.Of("uid-x"))
	for place, inv := range before {
		if after[place].Name != inv.Name {
			t.Fatalf("%s moved from %s to %s", place.Name, inv.Name, after[place].Name)
		}
	}
	if len(after) != len(all) {
		t.Errorf("%d objects are listed", len(after))
	}
}

// TestAnEmptyPartIsDeleted: when its objects are gone, an Inventory that is not the first of its stage goes, and its place can be taken.
func TestAnEmptyPartIsDeleted(t *testing.T) {
	f := newFixture(t)
	all := many(3*maxEntries, "n")
	p := stages(all)
	f.ensure(p, nil)
	f.observe()
	names := func() (out []string) {
		for _, inv := range f.Of("uid-x") {
			out = append(out, inv.Name)
		}
		return out
	}
	whole := names()
	// Everything goes, and one object still exists.
	second := f.Of("uid-x")[1]
	left := object("ClusterRole", "", second.Spec.Entries[0].Name)
	yes, owned := true, &observe.Object{Key: left.Key()}
	owned.OwnerReferences = []metav1.OwnerReference{{Kind: "Inventory", Name: second.Name, UID: second.UID, Controller: &yes}}
	f.children[left.Key()] = owned
	if _, err := f.Record(t.Context(), f.Of("uid-x"), stages(nil).Stages, stampedOf(stages(nil)), nil); err != nil {
		t.Fatal(err)
	}
	f.observe()
	if got := names(); !slices.Equal(got, whole[:2]) {
		t.Fatalf("of %q there are %q", whole, got)
	}
	f.ensure(p, f.Of("uid-x"))
	f.observe()
	if got := names(); !slices.Equal(got, whole) {
		t.Errorf("there are %q, want %q", got, whole)
	}
}

// TestAnInventoryOfACrashedProcessListsWhatIsWritten: one that exists, and that the cache does not have yet, may list less.
func TestAnInventoryOfACrashedProcessListsWhatIsWritten(t *testing.T) {
	f := newFixture(t)
	a, b := object("ClusterRole", "", "a"), object("ClusterRole", "", "b")
	f.ensure(stages([]plan.Object{a}), nil)
	invs := f.ensure(stages([]plan.Object{a, b}), nil)
	if len(invs) != 1 || len(invs[0].Spec.Entries) != 2 {
		t.Errorf("the Inventories are %+v", invs)
	}
}

// TestTooManyChildrenForAStatus: the status of a custom resource lists at most a thousand entries, and must stay far below etcd's limit.
func TestTooManyChildrenForAStatus(t *testing.T) {
	secrets := func(n, length int) (out []plan.Object) {
		for i := range n {
			out = append(out, object("Secret", "ns", strings.Repeat("s", length)+fmt.Sprint(i)))
		}
		return out
	}
	for _, c := range []struct {
		number, length int
		want           bool
	}{{1, 240, false}, {maxOfStatus / 10, 240, false}, {maxOfStatus, 10, false}, {maxOfStatus, 240, true}, {maxOfStatus + 1, 10, true}} {
		if got := newFixture(t).Needed(owner, stages(secrets(c.number, c.length)), nil); got != c.want {
			t.Errorf("%d children with names of %d: Inventories are needed: %v", c.number, c.length, got)
		}
	}
	// What the plan no longer has, and is not gone, is in the status, too.
	var former []keeper.InventoryEntry
	for i, o := range secrets(maxOfStatus-100, 10) {
		e := recorded(o, maxLeftOut)
		e.Name = fmt.Sprint("former-", i)
		former = append(former, e)
	}
	if p := stages(secrets(1, 10)); newFixture(t).Needed(owner, p, former) || !newFixture(t).Needed(owner, stages(secrets(200, 10)), former) {
		t.Error("what is recorded does not count")
	}
	raw, err := json.Marshal(ForStatus(former))
	if err != nil || len(raw) > etcdLimit/2 {
		t.Errorf("the entries take %d bytes of a status: %v", len(raw), err)
	}
}

func TestSameStage(t *testing.T) {
	named := func(stage string, part int32) *keeper.Inventory {
		return newInventory(place{owner, stage, 0, ""}, part, nil)
	}
	of := func(stage, part int) *keeper.Inventory { return legacy(stage, part) }
	for _, c := range []struct {
		a, b *keeper.Inventory
		want bool
	}{
		{of(1, 0), of(1, 0), true},
		{of(1, 0), of(1, 2), true},
		{of(1, 2), of(1, 0), true},
		{of(1, 2), of(1, 12), true},
		{of(1, 0), of(10, 0), false},
		{of(10, 0), of(1, 0), false},
		{of(1, 0), of(2, 1), false},
		{of(2, 1), of(1, 2), false},
		{named("a", 0), named("a", 0), true},
		{named("a", 0), named("a", 2), true},
		{named("a", 2), named("a", 12), true},
		{named("a", 0), named("a-1", 0), false},
		{named("a-1", 0), named("a", 1), false},
		{named("1", 0), of(1, 0), false},
		{of(1, 0), named("1", 0), false},
	} {
		if got := SameStage(c.a.Name, c.b); got != c.want {
			t.Errorf("%s and %s: %v", c.a.Name, c.b.Name, got)
		}
		if !SameOwner(c.a.Name, c.b) {
			t.Errorf("%s and %s are of two custom resources", c.a.Name, c.b.Name)
		}
		other := c.b.DeepCopy()
		other.Name = strings.Replace(c.b.Name, owner.InventoryPrefix(), plan.Stack{GVK: owner.GVK, Namespace: owner.Namespace, Name: owner.Name, UID: "another"}.InventoryPrefix(), 1)
		if SameOwner(c.a.Name, other) {
			t.Errorf("%s and %s are of one custom resource", c.a.Name, other.Name)
		}
	}
}
