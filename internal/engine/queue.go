package engine

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/fairqueue"
	"mlkeeper.dev/internal/engine/shard"
)

// transientRetry is the backoff after a transient error.
var transientRetry = backoff.Policy{First: 50 * time.Millisecond, Longest: backoff.Longest}

// queue connects the engine's requests with a controller's work queue. Before the manager leads, and of shards that it does not hold,
// requests are dropped: the start enqueues everything, and so does the gain of a shard.
type queue struct {
	backoff *backoff.Limiter[reconcile.Request]
	// shards are those of which requests are taken: a shard that is gained is enqueued as a whole.
	shards *shard.Shards

	mu   sync.Mutex
	work workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// delays is the clock of delayed requests: a controller waits in real time.
var delays clock.RealClock

// newController makes a controller whose only source is the engine: everything calls seed once the queue is open, when
// all watches are complete.
func newController(e *Engine, name string, workers int, r reconcile.Reconciler, seed func()) (*queue, error) {
	q := &queue{backoff: backoff.NewLimiter[reconcile.Request](transientRetry, e.Clock), shards: e.Shards}
	c, err := controller.New(name, e.mgr, controller.Options{
		// Where managers share the shards, each of them reconciles, not only the leader.
		NeedLeaderElection: ptr.To(e.Shards == nil),
		Reconciler:         fenced{r, e.Shards}, MaxConcurrentReconciles: workers, ReconciliationTimeout: reconcileTimeout,
		RecoverPanic: ptr.To(true), SkipNameValidation: ptr.To(true),
		RateLimiter: q.backoff,
		NewQueue: func(
			name string, limiter workqueue.TypedRateLimiter[reconcile.Request],
		) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			return fairqueue.New(name, limiter, delays, workers)
		},
	})
	if err != nil {
		return nil, err
	}
	return q, c.Watch(source.Func(func(
		ctx context.Context, work workqueue.TypedRateLimitingInterface[reconcile.Request],
	) error {
		go func() {
			if !e.start(ctx) {
				return
			}
			q.mu.Lock()
			q.work = work
			q.mu.Unlock()
			seed()
		}()
		return nil
	}))
}

// The priorities of requests. A thousand custom resources may be on their way when a request comes. They count among the requests that
// namespaces may have in one round of fairqueue: a namespace with many requests delays those of another for one round only.
const (
	// priorityResync is that of what was in sync when it was seen last.
	priorityResync = iota - 1
	// priorityDefault is that of everything else, first of all of new custom resources.
	priorityDefault
	// priorityHealth is that of a child that became healthy, degraded or was deleted, and of the wires that a Ready waits for: a user
	// waits for Ready, or the child for its repair. Most of these reconciliations cost one write.
	priorityHealth
	// prioritySpec is that of a changed spec: a user waits for the effect.
	prioritySpec
)

func (q *queue) add(namespace, name string) { q.addWith(priorityDefault, namespace, name) }

// addLast adds a request with the lowest priority, once after has passed.
func (q *queue) addLast(after time.Duration, namespace, name string) {
	q.addOpts(priorityqueue.AddOpts{Priority: ptr.To(priorityResync), After: after}, namespace, name)
}

func (q *queue) addWith(priority int, namespace, name string) {
	q.addOpts(priorityqueue.AddOpts{Priority: &priority}, namespace, name)
}

func (q *queue) addOpts(opts priorityqueue.AddOpts, namespace, name string) {
	q.mu.Lock()
	work := q.work
	q.mu.Unlock()
	request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
	if work == nil || !q.shards.Holds(request.NamespacedName) {
		return
	}
	if byPriority, ok := work.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		byPriority.AddWithOpts(opts, request)
		return
	}
	work.Add(request)
}
