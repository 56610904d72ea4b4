package watch

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

var secretKey = plan.Key{GroupKind: schema.GroupKind{Kind: "Secret"}, Namespace: "ns", Name: "s"}

func object(uid, rv string) *observe.Object {
	if uid == "" {
		return nil
	}
	o := &observe.Object{Key: secretKey}
	o.Name, o.Namespace, o.UID, o.ResourceVersion = "s", "ns", types.UID(uid), rv
	return o
}

func TestMutationCache(t *testing.T) {
	type pair struct{ uid, rv string }
	for _, tc := range []struct {
		name string
		// at is the cached object when the write is recorded, then the cached object at the lookup.
		at, then pair
		lastSync string
		write    pair
		want     pair
	}{
		{name: "created, cache empty", write: pair{"a", "10"}, lastSync: "9", want: pair{"a", "10"}},
		{name: "created, cache far ahead and empty", write: pair{"a", "10"}, lastSync: "11"},
		{name: "created, cache progress unknown", write: pair{"a", "10"}, want: pair{"a", "10"}},
		{name: "applied, cache older", at: pair{"a", "9"}, then: pair{"a", "9"}, write: pair{"a", "10"}, want: pair{"a", "10"}},
		{name: "longer is later", at: pair{"a", "9"}, then: pair{"a", "99"}, write: pair{"a", "100"}, want: pair{"a", "100"}},
		{name: "applied, cache equal", at: pair{"a", "9"}, then: pair{"a", "10"}, write: pair{"a", "10"}, want: pair{"a", "10"}},
		{name: "applied, cache newer", at: pair{"a", "9"}, then: pair{"a", "12"}, write: pair{"a", "10"}, want: pair{"a", "12"}},
		{name: "created after the deletion of an older object", at: pair{"a", "9"}, then: pair{"a", "9"}, write: pair{"b", "10"}, want: pair{"b", "10"}},
		{name: "replaced by a newer object", at: pair{"a", "9"}, then: pair{"b", "12"}, write: pair{"a", "10"}, want: pair{"b", "12"}},
		{name: "opaque, cache unchanged", at: pair{"a", "x"}, then: pair{"a", "x"}, write: pair{"a", "y"}, want: pair{"a", "y"}},
		{name: "opaque, cache changed", at: pair{"a", "x"}, then: pair{"a", "z"}, write: pair{"a", "y"}, want: pair{"a", "z"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := newMutationCache(testclock.NewFakeClock(time.Unix(0, 0)))
			w := mutation{object: object(tc.write.uid, tc.write.rv), uid: types.UID(tc.write.uid), rv: tc.write.rv}
			o.put("r", secretKey, w, func() (*observe.Object, string) { return object(tc.at.uid, tc.at.rv), "" })
			got := o.lookup("r", secretKey, func() string { return tc.lastSync }, func() *observe.Object { return object(tc.then.uid, tc.then.rv) })
			var have pair
			if got != nil {
				have = pair{string(got.UID), got.ResourceVersion}
			}
			if have != tc.want {
				t.Fatalf("sees %v, want %v", have, tc.want)
			}
		})
	}
}

func TestMutationCacheDropsObservedWrites(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(0, 0))
	o := newMutationCache(clock)
	nothing := func() (*observe.Object, string) { return nil, "" }
	put := func(w mutation) { o.put("r", secretKey, w, nothing) }
	sees := func(cached *observe.Object) *observe.Object {
		return o.lookup("r", secretKey, func() string { return "" }, func() *observe.Object { return cached })
	}
	put(mutation{object: object("a", "10"), uid: "a", rv: "10"})
	o.observe("r", object("a", "9"), false)
	if o.count.Load() != 1 {
		t.Fatal("dropped by an older event")
	}
	o.observe("r", object("a", "10"), false)
	if o.count.Load() != 0 {
		t.Fatal("kept after an equal event")
	}
	put(mutation{object: object("b", "20"), uid: "b", rv: "20"})
	o.observe("r", object("a", "15"), true)
	if sees(nil) == nil {
		t.Fatal("the deletion of an earlier object dropped a write")
	}
	// The responses arrive out of order: an older apply does not replace a newer one.
	put(mutation{object: object("b", "19"), uid: "b", rv: "19"})
	if got := sees(nil); got == nil || got.ResourceVersion != "20" {
		t.Fatalf("sees %v", got)
	}
	put(mutation{object: object("b", "21"), uid: "b", rv: "21"})
	clock.Step(mutationTTL + time.Second)
	if sees(nil) != nil {
		t.Fatal("an expired write still overrides the cache")
	}
	put(mutation{object: object("c", "30"), uid: "c", rv: "30"})
	o.removeKind("r", secretKey.GroupKind)
	if o.count.Load() != 0 || sees(nil) != nil {
		t.Fatal("kept after the API is no longer served")
	}
}

// TestMutationCacheReadsInOrder sends events between the reads of a lookup.
func TestMutationCacheReadsInOrder(t *testing.T) {
	o := newMutationCache(testclock.NewFakeClock(time.Unix(0, 0)))
	w := mutation{object: object("a", "10"), uid: "a", rv: "10"}
	o.put("r", secretKey, w, func() (*observe.Object, string) { return nil, "" })
	var store *observe.Object
	lastSync := "9"
	event := func() { // The cache observes the write, and the mutation cache drops it.
		store, lastSync = object("a", "10"), "10"
		o.observe("r", store, false)
	}
	for name, lookup := range map[string]func() *observe.Object{
		"before the version is read": func() *observe.Object {
			return o.lookup("r", secretKey, func() string { event(); return lastSync }, func() *observe.Object { return store })
		},
		"before the object is read": func() *observe.Object {
			return o.lookup("r", secretKey, func() string { return lastSync }, func() *observe.Object { event(); return store })
		},
		"after both": func() *observe.Object {
			defer event()
			return o.lookup("r", secretKey, func() string { return lastSync }, func() *observe.Object { return store })
		},
	} {
		store, lastSync = nil, "9"
		o.put("r", secretKey, w, func() (*observe.Object, string) { return nil, "" })
		if lookup() == nil {
			t.Errorf("%s: the written object is not returned", name)
		}
	}
}
