package watch

import (
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"mlkeeper.dev/internal/engine/observe"
)

// fakeInformers records the open watches of one controller, with the versions that were declared.
type fakeInformers struct {
	open     map[schema.GroupKind]string
	notified map[schema.GroupKind]int
	calls    int
}

func newFakeInformers() *fakeInformers {
	return &fakeInformers{open: map[schema.GroupKind]string{}, notified: map[schema.GroupKind]int{}}
}

func (f *fakeInformers) WatchChosenChildren(gvk schema.GroupVersionKind, _ string, notify func(old, new *observe.Object)) {
	f.calls++
	f.open[gvk.GroupKind()] = gvk.Version
	if notify != nil {
		f.notified[gvk.GroupKind()]++
	}
}

func (f *fakeInformers) StopWatchingChildren(gk schema.GroupKind, _ string) {
	f.calls++
	delete(f.open, gk)
	delete(f.notified, gk)
}

func kind(name, version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "example.com", Version: version, Kind: name}
}

// TestAKindIsWatchedWhileAReferrerHasIt declares kinds in any order and compares the open watches with those that the referrers have.
func TestAKindIsWatchedWhileAReferrerHasIt(t *testing.T) {
	always := kind("always", "v1")
	rapid.Check(t, func(t *rapid.T) {
		informers := newFakeInformers()
		d := NewDynamicChildren(informers, "controller", []schema.GroupVersionKind{always}, func(_, _ *observe.Object) {})
		has := map[KindReferrer]map[schema.GroupKind]bool{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			referrer := KindReferrer{UID: types.UID(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "uid")), Finalizing: rapid.Bool().Draw(t, "teardown")}
			var kinds []schema.GroupVersionKind
			for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{"always", "one", "two", "three"}), 0, 4).Draw(t, "kinds") {
				kinds = append(kinds, kind(name, rapid.SampledFrom([]string{"v1", "v2"}).Draw(t, "version")))
			}
			add := rapid.Bool().Draw(t, "add")
			if add {
				d.Add(referrer, kinds)
			} else {
				d.Set(referrer, kinds)
			}
			if has[referrer] == nil || !add {
				has[referrer] = map[schema.GroupKind]bool{}
			}
			for _, gvk := range kinds {
				has[referrer][gvk.GroupKind()] = true
			}
			want := map[schema.GroupKind]bool{}
			for _, kinds := range has {
				maps.Copy(want, kinds)
			}
			delete(want, always.GroupKind())
			if len(informers.open) != len(want) {
				t.Fatalf("open are %v, referred to are %v", informers.open, want)
			}
			for gk := range want {
				if informers.open[gk] == "" || informers.notified[gk] != 1 || !d.Has(gk) {
					t.Fatalf("of %v, %v are open, with the callbacks %v", want, informers.open, informers.notified)
				}
			}
		}
		for referrer := range has {
			d.Release(referrer)
		}
		if len(informers.open)+len(d.kinds)+len(d.byReferrer) > 0 {
			t.Fatalf("left are the watches %v and the referrers %v", informers.open, d.byReferrer)
		}
	})
}

func TestAnotherVersionIsDeclaredOnce(t *testing.T) {
	informers := newFakeInformers()
	d := NewDynamicChildren(informers, "controller", nil, func(_, _ *observe.Object) {})
	for i, c := range []struct {
		version string
		calls   int
	}{{"v1", 1}, {"v1", 1}, {"v2", 2}, {"v2", 2}} {
		d.Set(KindReferrer{UID: "a"}, []schema.GroupVersionKind{kind("one", c.version)})
		if informers.calls != c.calls || informers.open[kind("one", "").GroupKind()] != c.version {
			t.Errorf("step %d: %d calls, open are %v", i, informers.calls, informers.open)
		}
	}
	// What the inventory has comes before what the plan has.
	d.Set(KindReferrer{UID: "a"}, []schema.GroupVersionKind{kind("one", "v1"), kind("one", "v2")})
	if informers.calls != 2 {
		t.Errorf("the older of two versions is declared: %v", informers.open)
	}
}

// TestTheTeardownKeepsTheWatchesOfACustomResource hands the kinds of a custom resource over to its Inventories: no watch is opened again.
func TestTheTeardownKeepsTheWatchesOfACustomResource(t *testing.T) {
	informers := newFakeInformers()
	d := NewDynamicChildren(informers, "controller", nil, func(_, _ *observe.Object) {})
	kinds := []schema.GroupVersionKind{kind("one", "v1"), kind("two", "v1")}
	d.Set(KindReferrer{UID: "a"}, kinds)
	d.Add(KindReferrer{UID: "a", Finalizing: true}, kinds)
	d.Release(KindReferrer{UID: "a"})
	// The Inventory of a stage is gone, its objects may not be.
	d.Add(KindReferrer{UID: "a", Finalizing: true}, kinds[:1])
	if informers.calls != 2 || len(informers.open) != 2 {
		t.Errorf("%d calls, open are %v", informers.calls, slices.Collect(maps.Keys(informers.open)))
	}
	d.Release(KindReferrer{UID: "a", Finalizing: true})
	if len(informers.open) > 0 {
		t.Errorf("left are %v", informers.open)
	}
}
