// Package fairqueue is the work queue of a controller: it hands requests out by priority, and shares the workers fairly among namespaces.
// It owns the order of requests and their delays. It knows nothing of what a request is for.
package fairqueue

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var _ priorityqueue.PriorityQueue[reconcile.Request] = &Queue{}

// Queue is a work queue with the interface of controller-runtime's priority queue. Like there, a request is queued or delayed once: the
// highest priority and the shortest delay count.
type Queue struct {
	// The embedded queue merges equal requests, hands none out that is being processed, and exports the workqueue metrics.
	*workqueue.Typed[reconcile.Request]
	limiter workqueue.TypedRateLimiter[reconcile.Request]
	clock   clock.WithDelayedExecution
	order   *order

	mu      sync.Mutex
	delayed map[reconcile.Request]*delay
	stopped bool
}

// delay is a request that is queued later.
type delay struct {
	at       time.Time
	priority int
	timer    clock.Timer
}

// New returns an empty queue for a number of workers.
func New(name string, limiter workqueue.TypedRateLimiter[reconcile.Request], clock clock.WithDelayedExecution, workers int) *Queue {
	order := newOrder(share, (workers+1)/2)
	return &Queue{
		Typed: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{
			Name: name, Queue: order,
		}),
		limiter: limiter, clock: clock, order: order, delayed: map[reconcile.Request]*delay{},
	}
}

// AddWithOpts implements priorityqueue.PriorityQueue.
func (q *Queue) AddWithOpts(opts priorityqueue.AddOpts, requests ...reconcile.Request) {
	for _, r := range requests {
		after := opts.After
		if opts.RateLimited {
			if limited := q.limiter.When(r); after == 0 || limited < after {
				after = limited
			}
		}
		q.add(r, ptr.Deref(opts.Priority, 0), after)
	}
}

// add queues a request, now or after a delay.
func (q *Queue) add(r reconcile.Request, priority int, after time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped {
		return
	}
	if earlier, ok := q.delayed[r]; ok {
		priority = max(priority, earlier.priority)
		if after > 0 {
			after = min(after, max(earlier.at.Sub(q.clock.Now()), 1))
		}
		q.undelay(r)
	}
	if after > 0 {
		q.delay(r, priority, after)
		return
	}
	q.order.request(r, priority)
	q.Typed.Add(r)
}

// delay queues a request once after has passed.
func (q *Queue) delay(r reconcile.Request, priority int, after time.Duration) {
	d := &delay{at: q.clock.Now().Add(after), priority: priority}
	q.delayed[r] = d
	d.timer = q.clock.AfterFunc(after, func() { q.due(r, d) })
}

// due queues a request after its delay, unless it was queued or delayed anew meanwhile.
func (q *Queue) due(r reconcile.Request, d *delay) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.delayed[r] != d {
		return
	}
	delete(q.delayed, r)
	q.order.request(r, d.priority)
	q.Typed.Add(r)
}

// undelay ends the delay of a request.
func (q *Queue) undelay(r reconcile.Request) {
	if d, ok := q.delayed[r]; ok {
		d.timer.Stop()
		delete(q.delayed, r)
	}
}

// GetWithPriority implements priorityqueue.PriorityQueue. Nothing is handed out after ShutDown.
func (q *Queue) GetWithPriority() (r reconcile.Request, priority int, shutdown bool) {
	r, shutdown = q.Typed.Get()
	if shutdown || q.ShuttingDown() {
		return reconcile.Request{}, 0, true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	// This reconciliation does what the delayed one was to do.
	q.undelay(r)
	return r, q.order.taken(r), false
}

// Done implements workqueue.TypedInterface.
func (q *Queue) Done(r reconcile.Request) {
	q.order.done(r)
	q.Typed.Done(r)
}

// Get implements workqueue.TypedInterface.
func (q *Queue) Get() (r reconcile.Request, shutdown bool) {
	r, _, shutdown = q.GetWithPriority()
	return r, shutdown
}

// Add implements workqueue.TypedInterface.
func (q *Queue) Add(r reconcile.Request) { q.AddWithOpts(priorityqueue.AddOpts{}, r) }

// AddAfter implements workqueue.TypedDelayingInterface.
func (q *Queue) AddAfter(r reconcile.Request, after time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: after}, r)
}

// AddRateLimited implements workqueue.TypedRateLimitingInterface.
func (q *Queue) AddRateLimited(r reconcile.Request) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, r)
}

// Forget implements workqueue.TypedRateLimitingInterface.
func (q *Queue) Forget(r reconcile.Request) { q.limiter.Forget(r) }

// NumRequeues implements workqueue.TypedRateLimitingInterface.
func (q *Queue) NumRequeues(r reconcile.Request) int { return q.limiter.NumRequeues(r) }

// ShutDown ends the queue and all delays.
func (q *Queue) ShutDown() {
	q.mu.Lock()
	q.stopped = true
	for r := range q.delayed {
		q.undelay(r)
	}
	q.mu.Unlock()
	q.Typed.ShutDown()
}

// ShutDownWithDrain ends the queue like ShutDown: controller-runtime does not drain.
func (q *Queue) ShutDownWithDrain() { q.ShutDown() }
