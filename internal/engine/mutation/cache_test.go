package mutation

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
)

var key = types.NamespacedName{Namespace: "ns", Name: "s"}

// state is an object by its UID and version; the zero state is that of no object.
type state struct{ uid, version string }

func (s state) object() metav1.Object {
	if s == (state{}) {
		return nil
	}
	return &metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: types.UID(s.uid), ResourceVersion: s.version}
}

func stateOf(o metav1.Object) state {
	if o == nil {
		return state{}
	}
	return state{string(o.GetUID()), o.GetResourceVersion()}
}

// store is an informer's store with one object. before, which may be nil, is called before each read.
type store struct {
	state
	lastSync string
	before   func(read string)
}

func (s *store) Get(types.NamespacedName) metav1.Object {
	if s.before != nil {
		s.before("object")
	}
	return s.object()
}

func (s *store) LastSyncResourceVersion(string) string {
	if s.before != nil {
		s.before("version")
	}
	return s.lastSync
}

func newCache() (*Cache, *store, *testclock.FakeClock) {
	clock, s := testclock.NewFakeClock(time.Unix(0, 0)), &store{}
	return New(clock, s), s, clock
}

func TestGetReturnsTheNewerOfTheStoredAndTheWrittenObject(t *testing.T) {
	for _, tc := range []struct {
		name string
		// at is the stored object when the write is recorded, then the stored object when it is read.
		at, then state
		lastSync string
		write    state
		want     state
	}{
		{name: "created, store empty", write: state{"a", "10"}, lastSync: "9", want: state{"a", "10"}},
		{name: "created and deleted, store empty", write: state{"a", "10"}, lastSync: "11"},
		{name: "created, version of the store unknown", write: state{"a", "10"}, want: state{"a", "10"}},
		{name: "applied, store older", at: state{"a", "9"}, then: state{"a", "9"}, write: state{"a", "10"}, want: state{"a", "10"}},
		{name: "longer is later", at: state{"a", "9"}, then: state{"a", "99"}, write: state{"a", "100"}, want: state{"a", "100"}},
		{name: "applied, store equal", at: state{"a", "9"}, then: state{"a", "10"}, write: state{"a", "10"}, want: state{"a", "10"}},
		{name: "applied, store newer", at: state{"a", "9"}, then: state{"a", "12"}, write: state{"a", "10"}, want: state{"a", "12"}},
		{name: "recreated, store has the old object", at: state{"a", "9"}, then: state{"a", "9"}, write: state{"b", "10"}, want: state{"b", "10"}},
		{name: "recreated by another", at: state{"a", "9"}, then: state{"b", "12"}, write: state{"a", "10"}, want: state{"b", "12"}},
		{name: "opaque, store unchanged", at: state{"a", "x"}, then: state{"a", "x"}, write: state{"a", "y"}, want: state{"a", "y"}},
		{name: "opaque, store changed", at: state{"a", "x"}, then: state{"a", "z"}, write: state{"a", "y"}, want: state{"a", "z"}},
		{name: "opaque, store has it", at: state{"a", "y"}, then: state{}, write: state{"a", "y"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, s, _ := newCache()
			s.state = tc.at
			c.Updated(tc.write.object())
			s.state, s.lastSync = tc.then, tc.lastSync
			if got := stateOf(c.Get(key)); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			for _, o := range c.Overrides() {
				if got := stateOf(o); got != tc.want {
					t.Errorf("the overrides have %v, want %v", got, tc.want)
				}
			}
		})
	}
}

// An informer handles the deletion of an object before the answer of an earlier update is recorded.
func TestAnObjectThatWasDeletedBeforeTheAnswerOfItsUpdateIsGone(t *testing.T) {
	c, s, _ := newCache()
	s.state, s.lastSync = state{"a", "9"}, "9"
	c.OnUpdate(state{"a", "10"}.object())
	s.state, s.lastSync = state{}, "11"
	c.OnDelete(state{"a", "11"}.object())
	c.Updated(state{"a", "10"}.object())
	if got := c.Get(key); got != nil {
		t.Errorf("got %v", stateOf(got))
	}
	if len(c.writes) > 0 {
		t.Error("the write is remembered")
	}
}

func TestAWriteIsDroppedWhenItIsObserved(t *testing.T) {
	c, s, _ := newCache()
	for _, tc := range []struct {
		name  string
		write state
		event func(metav1.Object)
		state state
		kept  bool
	}{
		{"older event", state{"a", "10"}, c.OnUpdate, state{"a", "9"}, true},
		{"event of the write", state{"a", "10"}, c.OnUpdate, state{"a", "10"}, false},
		{"newer event", state{"a", "10"}, c.OnUpdate, state{"a", "12"}, false},
		{"deletion of an earlier object", state{"b", "20"}, c.OnDelete, state{"a", "15"}, true},
		{"deletion of the object", state{"b", "20"}, c.OnDelete, state{"b", "21"}, false},
		{"opaque, object as it was", state{"a", "y"}, c.OnUpdate, state{"a", "x"}, true},
		{"opaque, another version", state{"a", "y"}, c.OnUpdate, state{"a", "z"}, false},
	} {
		s.state = state{}
		if tc.write.version == "y" {
			s.state = state{"a", "x"}
		}
		c.Clear()
		c.Updated(tc.write.object())
		tc.event(tc.state.object())
		if kept := len(c.writes) == 1; kept != tc.kept {
			t.Errorf("%s: the write is remembered: %t", tc.name, kept)
		}
	}
}

func TestAnOlderAnswerDoesNotReplaceANewerOne(t *testing.T) {
	c, _, _ := newCache()
	c.Updated(state{"a", "20"}.object())
	c.Updated(state{"a", "19"}.object())
	if got := stateOf(c.Get(key)); got != (state{"a", "20"}) {
		t.Errorf("got %v", got)
	}
	c.Updated(state{"a", "21"}.object())
	if got := stateOf(c.Get(key)); got != (state{"a", "21"}) {
		t.Errorf("got %v", got)
	}
}

func TestADeletionCountsFromItsAcknowledgement(t *testing.T) {
	c, s, _ := newCache()
	s.state, s.lastSync = state{"a", "9"}, "9"
	c.Deleted(key, "a")
	if !c.WasDeleted(key, "a") || c.WasDeleted(key, "b") {
		t.Error("the deletion is unknown before the store observes it, or counts for another object")
	}
	if got := stateOf(c.Get(key)); got != (state{"a", "9"}) {
		t.Errorf("got %v: an object that is being deleted may still exist", got)
	}
	s.state, s.lastSync = state{}, "10"
	c.OnDelete(state{"a", "10"}.object())
	if c.Get(key) != nil || !c.WasDeleted(key, "a") {
		t.Error("the deletion is unknown after the store observed it")
	}
	c.Updated(state{"b", "11"}.object())
	if got := stateOf(c.Get(key)); got != (state{"b", "11"}) || c.WasDeleted(key, "a") || c.WasDeleted(key, "b") {
		t.Errorf("got %v: the recreated object counts as deleted, or the deletion of the one before is remembered", got)
	}
}

func TestAWriteAndADeletionExpire(t *testing.T) {
	c, _, clock := newCache()
	c.Updated(state{"a", "10"}.object())
	c.Deleted(key, "a")
	clock.Step(TTL)
	if c.Get(key) == nil || !c.WasDeleted(key, "a") {
		t.Error("they expire too early")
	}
	clock.Step(time.Second)
	if c.Get(key) != nil || c.WasDeleted(key, "a") {
		t.Error("they never expire")
	}
	c.Updated(&metav1.ObjectMeta{Name: "another", ResourceVersion: "11"})
	if c.Expire(); len(c.writes) != 1 || len(c.deletions) != 0 {
		t.Error("expired ones stay in memory")
	}
	c.Deleted(key, "a")
	if c.Clear(); len(c.writes) > 0 || len(c.deletions) > 0 {
		t.Error("they are remembered after the watch has ended")
	}
}

// The store observes the write, and the cache drops it, between two reads.
func TestGetReadsInOrder(t *testing.T) {
	for _, at := range []string{"version", "object", "never"} {
		c, s, _ := newCache()
		s.lastSync = "9"
		c.Updated(state{"a", "10"}.object())
		s.before = func(read string) {
			if read == at {
				s.state, s.lastSync = state{"a", "10"}, "10"
				c.OnUpdate(s.object())
			}
		}
		if got := stateOf(c.Get(key)); got != (state{"a", "10"}) {
			t.Errorf("event before the %s is read: got %v", at, got)
		}
	}
}
