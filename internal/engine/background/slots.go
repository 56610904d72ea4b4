package background

import (
	"context"
	"slices"
	"sync"
)

// slots bound how many jobs run at once, of all namespaces and of each. A free slot is given to the namespace that uses the fewest, and
// among equal ones to the job that has waited longest.
type slots struct {
	total, each int

	mu sync.Mutex
	// used are the slots in use by namespace, and busy their sum.
	used map[string]int
	busy int
	// waiting are the jobs without a slot, that which has waited longest first.
	waiting []*waiter
}

// waiter is a job that waits for a slot; granted is closed when it has one.
type waiter struct {
	namespace string
	granted   chan struct{}
}

func newSlots(total, each int) *slots {
	return &slots{total: total, each: each, used: map[string]int{}}
}

// acquire waits for a slot. It returns false, without a slot, when the context ends before.
func (s *slots) acquire(ctx context.Context, namespace string) bool {
	w := &waiter{namespace: namespace, granted: make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, w)
	s.grant()
	s.mu.Unlock()
	select {
	case <-w.granted:
		return true
	case <-ctx.Done():
		return s.cancel(w)
	}
}

// cancel ends the wait for a slot. It returns true when the slot was granted meanwhile.
func (s *slots) cancel(w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting, w)
	if i < 0 {
		return true
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	return false
}

// release returns a slot.
func (s *slots) release(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	if s.used[namespace]--; s.used[namespace] == 0 {
		delete(s.used, namespace)
	}
	s.grant()
}

// grant gives the free slots to waiting jobs.
func (s *slots) grant() {
	for s.busy < s.total {
		i := s.next()
		if i < 0 {
			return
		}
		w := s.waiting[i]
		s.waiting = slices.Delete(s.waiting, i, i+1)
		s.busy++
		s.used[w.namespace]++
		close(w.granted)
	}
}

// next is the index of the waiting job that is given the next slot, -1 where no job may have one.
func (s *slots) next() int {
	best := -1
	for i, w := range s.waiting {
		used := s.used[w.namespace]
		if used < s.each && (best < 0 || used < s.used[s.waiting[best].namespace]) {
			best = i
		}
	}
	return best
}
