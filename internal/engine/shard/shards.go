// Package shard divides the custom resources of an installation among its managers. A shard is a part of the namespaces; the manager that
// holds its lease reconciles what is in them, and nobody else does. The package owns which shards this manager holds, and the leases. It
// writes Leases only, and knows nothing of what a custom resource is.
package shard

import (
	"context"
	"hash/fnv"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Shards are the shards of an installation, and those of them that this manager holds. Nil holds everything.
type Shards struct {
	count int
	of    func(types.NamespacedName) int

	// gained and lost are called when this manager begins to hold a shard, and when it no longer does and nothing of it runs any more.
	gained, lost func(shard int)
	// turn is what one manager does at a time; nil for nothing.
	turn Turn
	// first is closed when this manager holds a shard for the first time.
	first chan struct{}
	// drained has a value when the last reconciliation of a shard has ended that this manager gives away.
	drained chan struct{}

	mu   sync.Mutex
	held map[int]*holding
}

// holding is a shard that this manager holds.
type holding struct {
	// ending says that nothing new begins, since the shard is given away.
	ending bool
	// running are the reconciliations under way, which lose ends.
	running map[*context.CancelFunc]bool
}

// New makes the shards of an installation, none of which is held.
func New(count int) *Shards {
	return NewBy(count, func(key types.NamespacedName) int { return Of(key.Namespace, count) })
}

// NewBy makes shards of which a function tells what belongs to them.
func NewBy(count int, of func(types.NamespacedName) int) *Shards {
	return &Shards{
		count: count, of: of, first: make(chan struct{}), drained: make(chan struct{}, 1), held: map[int]*holding{},
		gained: func(int) {}, lost: func(int) {},
	}
}

// Of is the shard of a namespace among so many. It follows from the name alone, so that what a deleted namespace left elsewhere has the
// same shard, and so that no manager needs to know the namespace. Cluster-scoped custom resources are of shard 0, whose manager is the
// leader.
func Of(namespace string, count int) int {
	if namespace == "" || count <= 1 {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(namespace))     // It never fails.
	return int(h.Sum32() % uint32(count)) //nolint:gosec // There are few shards.
}

// Count is the number of shards.
func (s *Shards) Count() int {
	if s == nil {
		return 1
	}
	return s.count
}

// Of is the shard of a custom resource, or of another object by its namespace.
func (s *Shards) Of(key types.NamespacedName) int {
	if s == nil {
		return 0
	}
	return s.of(key)
}

// OnChange sets what is called when this manager has gained or lost a shard. It is called before the first shard is held.
func (s *Shards) OnChange(gained, lost func(shard int)) {
	if s != nil {
		s.gained, s.lost = gained, lost
	}
}

// Turn is what one manager does at a time, and only if it wants to.
type Turn interface {
	// Wanted says whether this manager wants its turn.
	Wanted() bool
	// Take begins the turn of this manager.
	Take()
	// End ends the turn, unless this manager still wants it.
	End() (ended bool)
}

// ShareTurn sets what the managers take turns in. It is called before the first shard is held.
func (s *Shards) ShareTurn(turn Turn) { s.turn = turn }

// Holds says whether this manager holds the shard of a custom resource, and does not give it away.
func (s *Shards) Holds(key types.NamespacedName) bool {
	if s == nil {
		return true
	}
	shard := s.of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.held[shard]
	return ok && !h.ending
}

// Begin begins a reconciliation. Without the shard held is false. The context is done when the lease of the shard may be lost.
func (s *Shards) Begin(ctx context.Context, key types.NamespacedName) (_ context.Context, done func(), held bool) {
	if s == nil {
		return ctx, func() {}, true
	}
	shard := s.of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.held[shard]
	if !ok || h.ending {
		return ctx, func() {}, false
	}
	ctx, cancel := context.WithCancel(ctx)
	h.running[&cancel] = true
	return ctx, func() { s.end(h, &cancel) }, true
}

// end ends a reconciliation.
func (s *Shards) end(h *holding, cancel *context.CancelFunc) {
	(*cancel)()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(h.running, cancel)
	if h.ending && len(h.running) == 0 {
		select {
		case s.drained <- struct{}{}:
		default:
		}
	}
}

// AwaitFirst waits until this manager has held a shard. It is false when the context is done before.
func (s *Shards) AwaitFirst(ctx context.Context) bool {
	if s == nil {
		return ctx.Err() == nil
	}
	select {
	case <-s.first:
		return true
	case <-ctx.Done():
		return false
	}
}

// Hold has this manager hold a shard.
func (s *Shards) Hold(shard int) {
	s.mu.Lock()
	s.held[shard] = &holding{running: map[*context.CancelFunc]bool{}}
	select {
	case <-s.first:
	default:
		close(s.first)
	}
	s.mu.Unlock()
	s.gained(shard)
}

// GiveAway begins no reconciliation of a shard any more. Those under way go on.
func (s *Shards) GiveAway(shard int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, ok := s.held[shard]; ok {
		h.ending = true
	}
}

// Drop forgets a shard that is given away, unless a reconciliation of it is under way.
func (s *Shards) Drop(shard int) (dropped bool) {
	s.mu.Lock()
	h, ok := s.held[shard]
	if ok && (!h.ending || len(h.running) > 0) {
		s.mu.Unlock()
		return false
	}
	delete(s.held, shard)
	s.mu.Unlock()
	if ok {
		s.lost(shard)
	}
	return true
}

// Lose ends everything at once, since the leases may be lost.
func (s *Shards) Lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.held {
		h.ending = true
		for cancel := range h.running {
			(*cancel)()
		}
	}
}

// has says that this manager holds a shard, or gives it away and has reconciliations of it under way.
func (s *Shards) has(shard int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.held[shard]
	return ok
}

// busy says that a reconciliation is under way.
func (s *Shards) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.held {
		if len(h.running) > 0 {
			return true
		}
	}
	return false
}

// active are the shards that this manager holds and does not give away, in order.
func (s *Shards) active() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []int
	for shard, h := range s.held {
		if !h.ending {
			out = append(out, shard)
		}
	}
	slices.Sort(out)
	return out
}
