package engine

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// backoff spaces the retries of what failed for a passing reason. It grows with the time that the failure lasts and not
// with how often it was met: a rollout wakes a custom resource dozens of times within a second, and each of these passes
// may fail, which must not put off the next one by minutes when the API server is back.
type backoff struct {
	clock clock.PassiveClock

	mu sync.Mutex
	by map[reconcile.Request]*retry
}

// retry is the state of one request.
type retry struct {
	failures int
	next     time.Time
}

var _ workqueue.TypedRateLimiter[reconcile.Request] = (*backoff)(nil)

func newBackoff(c clock.PassiveClock) *backoff {
	return &backoff{clock: c, by: map[reconcile.Request]*retry{}}
}

// When implements workqueue.TypedRateLimiter: a failure before the next retry is due waits for that one.
func (b *backoff) When(item reconcile.Request) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	r := b.by[item]
	if r == nil {
		r = &retry{}
		b.by[item] = r
	}
	if rest := r.next.Sub(now); rest > 0 {
		return rest
	}
	wait := min(firstRetry<<min(r.failures, 20), lastRetry)
	r.failures++
	r.next = now.Add(wait)
	return wait
}

// rest is how long the next retry is still away; zero when none is waited for.
func (b *backoff) rest(item reconcile.Request) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.by[item]; r != nil {
		return max(r.next.Sub(b.clock.Now()), 0)
	}
	return 0
}

// Forget implements workqueue.TypedRateLimiter. A pass that came before the next retry was due has proved nothing.
func (b *backoff) Forget(item reconcile.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.by[item]; r != nil && !b.clock.Now().Before(r.next) {
		delete(b.by, item)
	}
}

// NumRequeues implements workqueue.TypedRateLimiter.
func (b *backoff) NumRequeues(item reconcile.Request) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.by[item]; r != nil {
		return r.failures
	}
	return 0
}
