package idle

import (
	"fmt"
	"testing"
	"time"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

// TestIdleAfterReady looks at the requests of an operator that leads and whose services are all Ready: no write but the
// lease, no live read and no reconcile, before and after all its watches broke at once.
func TestIdleAfterReady(t *testing.T) {
	w := newWorld(t, number)
	w.settle(t)
	for _, s := range w.services {
		harness.NoTimer(t, w.cluster, fixture.GVK, s.Namespace, s.Name)
	}
	start := w.activity(t)
	w.stayIdle(t, lookOn(t)/2)

	broken := w.activity(t)
	began := time.Now()
	w.cluster.StopComponent(t, "kube-apiserver")
	w.cluster.StartComponent(t, "kube-apiserver")
	w.awaitReconnect(t, broken)
	w.settle(t)
	w.assertReconnectOnlyWatches(t, broken, time.Since(began))

	w.stayIdle(t, lookOn(t)/2)
	t.Logf("%d services, all requests of the operator in %s of idling and one reconnect:\n%s",
		len(w.services), lookOn(t), cluster.Describe(w.operator.Requests.Since(start.requests)))
}

// stayIdle asserts that nothing is done for a while.
func (w *world) stayIdle(t *testing.T, d time.Duration) {
	t.Helper()
	before := w.activity(t)
	cluster.Consistently(t, d, func() error { return w.idleSince(t, before) })
}

// awaitReconnect waits until every watch that was open before is open again: as many as the operator has opened in all,
// since each is opened once. That on volumes has ended, since every claim is bound.
func (w *world) awaitReconnect(t *testing.T, before activity) {
	t.Helper()
	cluster.Eventually(t, 2*time.Minute, func() error {
		since := w.operator.Requests.Since(before.requests)
		for request := range before.requests {
			if request.Verb == "WATCH" && request.Resource != "persistentvolumes" && since[request] == 0 {
				return fmt.Errorf("%s was not sent again", request)
			}
		}
		return nil
	})
}

// assertReconnectOnlyWatches asserts that the reconnect cost no write and no GET of an object. A broken watch may LIST
// where the API server cannot stream, and an API server that was away is asked anew which APIs it serves.
func (w *world) assertReconnectOnlyWatches(t *testing.T, before activity, took time.Duration) {
	t.Helper()
	since := w.operator.Requests.Since(before.requests)
	gets := cluster.Sum(since, func(r cluster.Request) bool { return r.Verb == "GET" }, "leases")
	if writes := cluster.Sum(since, cluster.Request.Write, "leases"); writes > 0 || gets > 0 {
		t.Errorf("the reconnect cost %d writes and %d GETs:\n%s", writes, gets, cluster.Describe(since))
	}
	t.Logf("the reconnect took %s and cost:\n%s", took.Round(100*time.Millisecond), cluster.Describe(since))
}
