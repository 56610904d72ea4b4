package fairqueue

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"mlkeeper.dev/internal/engine/backoff"
)

const (
	retry = 10 * time.Second
	// manyWorkers is for how many workers the queues of these tests are.
	manyWorkers = 16
)

// test runs f with an empty queue on a simulated clock.
func test(t *testing.T, f func(*testing.T, *Queue)) {
	synctest.Test(t, func(t *testing.T) {
		limiter := backoff.NewLimiter[reconcile.Request](backoff.Policy{First: retry, Longest: retry}, clock.RealClock{})
		q := New("", limiter, clock.RealClock{}, manyWorkers)
		defer q.ShutDown()
		f(t, q)
	})
}

var x, y = request("ns", "x"), request("ns", "y")

func with(priority int, after time.Duration) priorityqueue.AddOpts {
	return priorityqueue.AddOpts{Priority: ptr.To(priority), After: after}
}

// expect checks that the queue hands out a request with a priority, and nothing else before it is done.
func expect(t *testing.T, q *Queue, want reconcile.Request, priority int) {
	t.Helper()
	synctest.Wait()
	if q.Len() == 0 {
		t.Fatalf("nothing is queued, not %v", want)
	}
	if got, p, shutdown := q.GetWithPriority(); got != want || p != priority || shutdown {
		t.Fatalf("%v with priority %d, %t", got, p, shutdown)
	}
}

func expectNone(t *testing.T, q *Queue) {
	t.Helper()
	synctest.Wait()
	if q.Len() > 0 {
		t.Fatalf("%d requests are queued", q.Len())
	}
}

func TestEqualRequestsAreOneWithTheHighestPriority(t *testing.T) {
	test(t, func(t *testing.T, q *Queue) {
		q.AddWithOpts(with(0, 0), x, y)
		q.AddWithOpts(with(2, 0), y)
		q.AddWithOpts(with(1, 0), y)
		expect(t, q, y, 2)
		expect(t, q, x, 0)
		expectNone(t, q)
	})
}

func TestARequestThatIsProcessedIsHandedOutAfterItIsDone(t *testing.T) {
	test(t, func(t *testing.T, q *Queue) {
		q.Add(x)
		expect(t, q, x, 0)
		q.AddWithOpts(with(0, 0), x)
		q.AddWithOpts(with(2, 0), x)
		q.AddWithOpts(with(1, 0), x)
		expectNone(t, q)
		q.Done(x)
		expect(t, q, x, 2)
		q.Done(x)
		expectNone(t, q)
	})
}

func TestTheShortestDelayAndTheHighestPriorityCount(t *testing.T) {
	test(t, func(t *testing.T, q *Queue) {
		q.AddWithOpts(with(0, time.Minute), x)
		q.AddWithOpts(with(2, time.Hour), x)
		q.AddAfter(x, 2*time.Minute)
		time.Sleep(time.Minute - time.Second)
		expectNone(t, q)
		time.Sleep(time.Second)
		expect(t, q, x, 2)
		q.Done(x)
		time.Sleep(2 * time.Hour)
		expectNone(t, q)
	})
}

func TestAnAdditionReplacesADelayedOne(t *testing.T) {
	test(t, func(t *testing.T, q *Queue) {
		q.AddWithOpts(with(1, time.Minute), x)
		q.Add(x)
		expect(t, q, x, 1)
		q.Done(x)
		time.Sleep(time.Hour)
		expectNone(t, q)
	})
}

// TestADelayEndsWhenTheRequestIsHandedOut has a request that is queued again, and then delayed, while it is processed: the reconciliation
// that follows decides whether there is another.
func TestADelayEndsWhenTheRequestIsHandedOut(t *testing.T) {
	test(t, func(t *testing.T, q *Queue) {
		q.Add(x)
		expect(t, q, x, 0)
		q.Add(x)
		q.AddAfter(x, time.Minute)
		q.Done(x)
		expect(t, q, x, 0)
		q.Done(x)
		time.Sleep(time.Hour)
		expectNone(t, q)
		// One that is delayed while it is processed for the last time comes again.
		q.Add(x)
		expect(t, q, x, 0)
		q.AddAfter(x, time.Minute)
		q.Done(x)
		expectNone(t, q)
		time.Sleep(time.Minute)
		expect(t, q, x, 0)
	})
}

func TestAFailureIsRetriedAfterTheLimitersPause(t *testing.T) {
	test(t, func(t *testing.T, q *Queue) {
		q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true, Priority: ptr.To(1)}, x)
		if q.NumRequeues(x) != 1 {
			t.Errorf("%d retries", q.NumRequeues(x))
		}
		expectNone(t, q)
		time.Sleep(retry * 5 / 4) // Jitter adds up to a quarter.
		expect(t, q, x, 1)
		q.Forget(x)
		if q.NumRequeues(x) != 0 {
			t.Errorf("%d retries after a success", q.NumRequeues(x))
		}
	})
}

func TestNothingIsHandedOutAfterShutDown(t *testing.T) {
	test(t, func(t *testing.T, q *Queue) {
		q.Add(x)
		q.AddAfter(y, time.Minute)
		q.ShutDown()
		q.Add(y)
		time.Sleep(time.Hour)
		if got, shutdown := q.Get(); !shutdown || got != (reconcile.Request{}) {
			t.Errorf("%v", got)
		}
		if len(q.delayed) > 0 {
			t.Errorf("%d requests are delayed", len(q.delayed))
		}
	})
}
