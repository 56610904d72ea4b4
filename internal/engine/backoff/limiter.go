package backoff

import (
	"maps"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// Limiter spaces the retries of the items of a work queue. It may be used from several goroutines.
type Limiter[T comparable] struct {
	policy Policy
	clock  clock.PassiveClock

	mu sync.Mutex
	by map[T]*Retry
	// sweptAt is when items that nobody tries any more were dropped last.
	sweptAt time.Time
}

var _ workqueue.TypedRateLimiter[string] = (*Limiter[string])(nil)

// NewLimiter makes a Limiter that knows of no failure.
func NewLimiter[T comparable](p Policy, c clock.PassiveClock) *Limiter[T] {
	return &Limiter[T]{policy: p, clock: c, by: map[T]*Retry{}}
}

// When implements workqueue.TypedRateLimiter: a failure before the next retry is due waits for that one.
func (l *Limiter[T]) When(item T) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.by[item]
	if r == nil {
		r = &Retry{}
		l.by[item] = r
	}
	now := l.clock.Now()
	defer l.sweepLocked(now)
	return r.Failed(l.policy, "", now).Sub(now)
}

// Remaining is how long the next retry is still away; zero when none is waited for.
func (l *Limiter[T]) Remaining(item T) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.by[item]; r != nil {
		return max(r.Due().Sub(l.clock.Now()), 0)
	}
	return 0
}

// Forget implements workqueue.TypedRateLimiter. A success that came before the next retry was due has proved nothing.
func (l *Limiter[T]) Forget(item T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	if r := l.by[item]; r != nil && !r.Waits(now) {
		delete(l.by, item)
	}
	l.sweepLocked(now)
}

// sweepLocked drops the items whose retry has been due for longer than any pause: a queue has tried them by then, or no longer has them.
// An item that succeeded before its retry was due is never tried again if it is gone.
func (l *Limiter[T]) sweepLocked(now time.Time) {
	if now.Sub(l.sweptAt) < l.policy.Longest {
		return
	}
	l.sweptAt = now
	maps.DeleteFunc(l.by, func(_ T, r *Retry) bool { return now.Sub(r.Due()) > l.policy.Longest })
}

// Drop forgets the failures of an item that is gone, or is another's now.
func (l *Limiter[T]) Drop(item T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.by, item)
}

// NumRequeues implements workqueue.TypedRateLimiter.
func (l *Limiter[T]) NumRequeues(item T) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.by[item]; r != nil {
		return r.Failures()
	}
	return 0
}
