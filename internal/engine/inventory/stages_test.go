package inventory

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

// legacy is an Inventory of an earlier version, which knew its stage by its number alone.
func legacy(stage, part int, objects ...plan.Object) *keeper.Inventory {
	name := fmt.Sprintf("thing-%s-%.8s-%d", owner.Hash(), owner.UID, stage)
	if part > 0 {
		name += fmt.Sprintf("-%d", part)
	}
	inv := newInventory(place{owner, "", int32(stage), ""}, int32(part), nil) //nolint:gosec // A small number.
	inv.Name = name
	inv.Spec.Entries = union(nil, objects)
	return inv
}

// stagesNamed is a plan whose stages have one object each, of the name of the stage.
func stagesNamed(names ...string) (p plan.Plan) {
	for _, name := range names {
		p.Stages = append(p.Stages, plan.Stage{Name: name, Objects: []plan.Object{object("ClusterRole", "", name)}})
	}
	return p
}

// put has the API server hold Inventories, of which the cache knows.
func (f *fixture) put(invs ...*keeper.Inventory) {
	f.t.Helper()
	for _, inv := range invs {
		u, err := toUnstructured(inv)
		if err != nil {
			f.t.Fatal(err)
		}
		if _, err := f.client.Resource(inventories).Create(f.t.Context(), u, metav1.CreateOptions{}); err != nil {
			f.t.Fatal(err)
		}
	}
	f.observe()
}

// owners are the UIDs of the Inventories by the object that each lists, and order is that of the objects by the numbers.
func (f *fixture) owners() (uids map[string]types.UID, order []string) {
	uids = map[string]types.UID{}
	for _, inv := range f.Of("uid-x") {
		for _, e := range inv.Spec.Entries {
			uids[e.Name] = inv.UID
			order = append(order, e.Name)
		}
	}
	return uids, order
}

// TestAnInsertedStageRewritesNothing inserts and removes stages at every place: no other Inventory is written, and so the owner of no
// other object changes.
func TestAnInsertedStageRewritesNothing(t *testing.T) {
	ten := []string{"definitions", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	for at := range len(ten) + 1 {
		f := newFixture(t)
		f.ensure(stagesNamed(ten...), nil)
		f.observe()
		before, _ := f.owners()
		writes := f.writes()
		f.ensure(stagesNamed(slices.Insert(slices.Clone(ten), at, "new")...), f.Of("uid-x"))
		f.observe()
		after, order := f.owners()
		if want := slices.Insert(slices.Clone(ten), at, "new"); !slices.Equal(order, want) && at > 0 {
			t.Errorf("inserted at %d: the order is %v", at, order)
		}
		delete(after, "new")
		for name, uid := range before {
			if after[name] != uid {
				t.Errorf("inserted at %d: the owner of %s changes", at, name)
			}
		}
		// Nothing comes before the first stage, which has the lowest number that there is.
		if n := f.writes() - writes; n != 1 && at > 0 {
			t.Errorf("inserted at %d: %d writes", at, n)
		}
		if at == len(ten) {
			continue
		}
		writes = f.writes()
		p := stagesNamed(slices.Delete(slices.Insert(slices.Clone(ten), at, "new"), at, at+1)...)
		invs := f.ensure(p, f.Of("uid-x"))
		if n := f.writes() - writes; n != 0 {
			t.Errorf("removed at %d: %d writes", at, n)
		}
		var entries []keeper.InventoryEntry
		for _, stage := range p.Stages {
			entries = append(entries, listed(stage.Objects[0]))
		}
		if _, err := f.Record(t.Context(), invs, p.Stages, stampedOf(p), entries); err != nil {
			t.Fatal(err)
		}
		f.observe()
		if _, order := f.owners(); !slices.Equal(order, ten) {
			t.Errorf("removed at %d: the order is %v", at, order)
		}
	}
}

// TestManyStagesAtOnePlace inserts stages at one place until there is no number left between two: then all are numbered anew, in
// order, and keep their Inventories.
func TestManyStagesAtOnePlace(t *testing.T) {
	f := newFixture(t)
	names := []string{"definitions", "a", "b"}
	for i := range 40 {
		f.ensure(stagesNamed(names...), f.Of("uid-x"))
		f.observe()
		before, order := f.owners()
		if !slices.Equal(order, names) || len(f.Of("uid-x")) != len(names) {
			t.Fatalf("the order is %v, want %v", order, names)
		}
		names = slices.Insert(names, 1, fmt.Sprint("new-", i))
		f.ensure(stagesNamed(names...), f.Of("uid-x"))
		f.observe()
		after, _ := f.owners()
		for name, uid := range before {
			if after[name] != uid {
				t.Fatalf("the owner of %s changes", name)
			}
		}
	}
}

// TestInventoriesOfAnEarlierVersion upgrades Inventories that have numbers and no names, while an application is inserted, another one
// removed, and another one has no objects: each object keeps its owner.
func TestInventoriesOfAnEarlierVersion(t *testing.T) {
	one := func(name string) plan.Object { return object("ClusterRole", "", name) }
	before := func() []*keeper.Inventory {
		return []*keeper.Inventory{
			legacy(0, 0, one("definitions")), legacy(1, 0, one("a")), legacy(2, 0, one("b"), one("b2")), legacy(2, 1, one("b3")), legacy(3, 0),
			legacy(4, 0, one("c")), legacy(5, 0, one("d")),
		}
	}
	whole := stagesNamed("definitions", "a", "b", "none", "c", "d")
	whole.Stages[2].Objects = append(whole.Stages[2].Objects, one("b2"), one("b3"))
	whole.Stages[3].Objects = nil
	changed := whole
	changed.Stages = slices.Concat(whole.Stages[:1], stagesNamed("new").Stages, whole.Stages[1:4], whole.Stages[5:])
	for name, c := range map[string]struct {
		p      plan.Plan
		writes int
	}{"unchanged": {whole, 7}, "changed": {changed, 0}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.put(before()...)
			uids, _ := f.owners()
			writes := f.writes()
			f.ensure(c.p, f.Of("uid-x"))
			f.observe()
			after, _ := f.owners()
			for object, uid := range uids {
				if after[object] != uid {
					t.Errorf("the owner of %s changes from %s to %s", object, uid, after[object])
				}
			}
			if n := f.writes() - writes; c.writes > 0 && n != c.writes {
				t.Errorf("%d writes name seven Inventories", n)
			}
			writes = f.writes()
			if f.ensure(c.p, f.Of("uid-x")); f.writes() != writes {
				t.Errorf("%d writes of what has its name", f.writes()-writes)
			}
		})
	}
}

// TestAnEndDuringTheNaming ends the process after each write of an upgrade that inserts a stage: the next one continues, no object changes its
// owner, and the numbers are at any time in the order of the stages.
func TestAnEndDuringTheNaming(t *testing.T) {
	names := []string{"definitions", "a", "b", "c", "d"}
	p := stagesNamed("definitions", "new", "a", "b", "c", "d")
	for last := range 12 {
		f := newFixture(t)
		for i, name := range names {
			f.put(legacy(i, 0, object("ClusterRole", "", name)))
		}
		before, _ := f.owners()
		left := last
		ended := errors.New("the process has ended")
		f.client.PrependReactor("*", "inventories", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if a.GetVerb() != "update" && a.GetVerb() != "create" || left < 0 {
				return false, nil, nil
			}
			if left == 0 {
				return true, nil, ended
			}
			left--
			return false, nil, nil
		})
		_, err := f.Ensure(t.Context(), owner, p, f.Of("uid-x"), func() error { return nil })
		if err != nil && !errors.Is(err, ended) {
			t.Fatal(err)
		}
		f.observe()
		if _, order := f.owners(); !slices.Equal(slices.DeleteFunc(order, func(name string) bool { return name == "new" }), names) {
			t.Errorf("after %d writes the order is %v", last, order)
		}
		left = -1
		f.ensure(p, f.Of("uid-x"))
		f.observe()
		after, order := f.owners()
		if want := strings.Join([]string{"definitions", "new", "a", "b", "c", "d"}, " "); strings.Join(order, " ") != want {
			t.Errorf("after an end after %d writes the order is %v", last, order)
		}
		for name, uid := range before {
			if after[name] != uid {
				t.Errorf("after an end after %d writes the owner of %s changes", last, name)
			}
		}
	}
}

// TestStagesHaveNamesOfTheirOwn: two stages of one name would share Inventories.
func TestStagesHaveNamesOfTheirOwn(t *testing.T) {
	for _, p := range []plan.Plan{stagesNamed("a", "a"), stagesNamed("")} {
		f := newFixture(t)
		if _, err := f.Ensure(t.Context(), owner, p, nil, func() error { return nil }); err == nil || f.writes() > 0 {
			t.Errorf("%v, %d writes", err, f.writes())
		}
	}
}

// TestNumbers shows that stages keep their numbers where that is possible, and that the numbers always grow.
func TestNumbers(t *testing.T) {
	of := func(number int) []*keeper.Inventory {
		if number < 0 {
			return nil
		}
		return []*keeper.Inventory{{Spec: keeper.InventorySpec{Stage: int32(number)}}} //nolint:gosec // A small number.
	}
	for _, c := range []struct{ have, want []int }{
		{[]int{-1, -1, -1}, []int{0, 1000, 2000}},
		{[]int{0, -1, 1000}, []int{0, 500, 1000}},
		{[]int{0, -1, -1, 1000, -1}, []int{0, 333, 666, 1000, 2000}},
		{[]int{0, -1, 1}, []int{0, 1000, 2000}},
		{[]int{-1, 0}, []int{0, 1000}},
		{[]int{-1, 1000}, []int{499, 1000}},
		{[]int{0, 3000, 1000, 2000}, []int{0, 500, 1000, 2000}},
		{[]int{0, maxStage, -1}, []int{0, 1000, 2000}},
		{[]int{5, 5}, []int{5, 1005}},
	} {
		var in [][]*keeper.Inventory
		for _, number := range c.have {
			in = append(in, of(number))
		}
		var got []int
		for _, number := range numbersOf(in) {
			got = append(got, int(number))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v becomes %v, want %v", c.have, got, c.want)
		}
	}
	many := anew(1001)
	if many[1000] > maxStage || many[1] == many[0] {
		t.Errorf("a thousand stages are numbered up to %d", many[1000])
	}
}
