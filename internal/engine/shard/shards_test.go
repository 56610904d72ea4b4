package shard

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func in(namespace string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: "x"}
}

// TestTheShardOfANamespaceFollowsFromItsName pins some, since managers of different releases must agree.
func TestTheShardOfANamespaceFollowsFromItsName(t *testing.T) {
	for namespace, want := range map[string]int{"": 0, "team-a": 2, "team-b": 3, "team-c": 0} {
		if got := Of(namespace, 4); got != want {
			t.Errorf("%q is of shard %d, not %d", namespace, got, want)
		}
	}
	sizes := make([]int, 8)
	for i := range 8000 {
		sizes[Of(fmt.Sprint("namespace-", i), len(sizes))]++
	}
	if slices.Min(sizes) < 850 || slices.Max(sizes) > 1150 {
		t.Errorf("8,000 namespaces are divided unevenly: %v", sizes)
	}
}

// TestWithoutShardsEverythingIsHeld is a manager without leases.
func TestWithoutShardsEverythingIsHeld(t *testing.T) {
	var s *Shards
	_, done, held := s.Begin(t.Context(), in("a"))
	done()
	if !held || !s.Holds(in("a")) || s.Count() != 1 || s.Of(in("a")) != 0 || !s.AwaitFirst(t.Context()) {
		t.Error("something is not held")
	}
	s.OnChange(nil, nil)
}

// TestAShardIsDroppedWhenNothingOfItRunsAnyMore gives a shard away while one of its custom resources is reconciled.
func TestAShardIsDroppedWhenNothingOfItRunsAnyMore(t *testing.T) {
	s := NewBy(2, func(key types.NamespacedName) int { return map[string]int{"a": 0, "b": 1}[key.Namespace] })
	var changes []string
	s.OnChange(func(i int) { changes = append(changes, fmt.Sprint("gained ", i)) }, func(i int) { changes = append(changes, fmt.Sprint("lost ", i)) })
	if _, _, held := s.Begin(t.Context(), in("b")); held || s.Holds(in("b")) {
		t.Fatal("a shard is held that nobody gave")
	}
	s.Hold(1)
	ctx, done, held := s.Begin(t.Context(), in("b"))
	if _, _, other := s.Begin(t.Context(), in("a")); !held || other || s.Holds(in("a")) {
		t.Fatal("the one shard is not held, or the other one is")
	}
	if s.Drop(1) {
		t.Error("a shard was dropped that was not given away")
	}
	s.GiveAway(1)
	if _, _, again := s.Begin(t.Context(), in("b")); again || s.Holds(in("b")) || s.Drop(1) || ctx.Err() != nil {
		t.Error("a shard that is given away goes on, or does not wait for what runs")
	}
	done()
	select {
	case <-s.drained:
	default:
		t.Error("nobody is told that the last reconciliation has ended")
	}
	for range 2 { // The second time, nothing is left to drop.
		if !s.Drop(1) {
			t.Error("the shard is not dropped")
		}
	}
	if want := []string{"gained 1", "lost 1"}; !slices.Equal(changes, want) {
		t.Errorf("the changes are %v, not %v", changes, want)
	}
}

// TestWhatRunsEndsWhenTheLeasesMayBeLost: a reconciliation that is under way writes nothing after that.
func TestWhatRunsEndsWhenTheLeasesMayBeLost(t *testing.T) {
	s := New(1)
	s.Hold(0)
	ctx, done, _ := s.Begin(t.Context(), in("a"))
	defer done()
	s.Lose()
	if ctx.Err() == nil || s.Holds(in("a")) {
		t.Error("it goes on")
	}
}

func TestTheFirstShardIsAwaited(t *testing.T) {
	s := New(2)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if s.AwaitFirst(stopped) {
		t.Error("no shard is held")
	}
	s.Hold(1)
	s.Hold(0)
	if !s.AwaitFirst(t.Context()) {
		t.Error("a shard is held")
	}
}

// TestQuotas: as many as there are shards in all, evenly, and nobody gives a shard away who need not.
func TestQuotas(t *testing.T) {
	for _, c := range []struct {
		held   map[string]int
		shards int
		want   map[string]int
	}{
		{map[string]int{"a": 0}, 4, map[string]int{"a": 4}},
		{map[string]int{"a": 4, "b": 0}, 4, map[string]int{"a": 2, "b": 2}},
		{map[string]int{"a": 0, "b": 1}, 1, map[string]int{"a": 0, "b": 1}},
		{map[string]int{"a": 1, "b": 2, "c": 1}, 4, map[string]int{"a": 1, "b": 2, "c": 1}},
		{map[string]int{"a": 0, "b": 2, "c": 2}, 4, map[string]int{"a": 1, "b": 2, "c": 1}},
		{map[string]int{"a": 0, "b": 0, "c": 1}, 2, map[string]int{"a": 1, "b": 0, "c": 1}},
	} {
		for member, want := range c.want {
			if got := quotaOf(member, c.held, c.shards); got != want {
				t.Errorf("of %d shards, with %v: the quota of %s is %d, not %d", c.shards, c.held, member, got, want)
			}
		}
	}
}
