package harness

import (
	"reflect"
	"sync"
	"testing"
)

type keeper struct {
	mu     sync.RWMutex
	by     map[string]*kept
	nested map[string]map[int]bool
	shared sync.Map
	any    any
	self   *keeper
	none   map[string]int //nolint:unused // It is read by reflection.
}

type kept struct {
	mu    sync.Mutex
	names []string
	bytes []byte
}

// TestSizesAreThoseOfEveryMap: entries are counted behind pointers, interfaces and locks, each once.
func TestSizesAreThoseOfEveryMap(t *testing.T) {
	k := &keeper{
		by:     map[string]*kept{"a": {names: []string{"x", "y"}}, "b": {names: []string{"z"}, bytes: []byte("text")}},
		nested: map[string]map[int]bool{"a": {1: true, 2: true}}, any: &kept{names: []string{"w"}},
	}
	k.self = k
	k.shared.Store("a", &kept{})
	got := Sizes(k)
	want := map[string]int{
		"harness.keeper.by": 2, "harness.kept.names": 4, "harness.keeper.nested": 1, "harness.keeper.nested[]": 2, "harness.keeper.shared": 1,
		"harness.keeper.none": 0,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the sizes are %v, want %v", got, want)
	}
	if !k.mu.TryLock() || !k.by["a"].mu.TryLock() {
		t.Error("a lock is still held")
	}
}
