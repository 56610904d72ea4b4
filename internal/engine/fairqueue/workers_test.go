package fairqueue

import (
	"fmt"
	"maps"
	"testing"
	"testing/synctest"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// workers process the requests of a queue as controller-runtime's do (pkg/internal/controller: processNextWorkItem). Each request is blocked
// until the test ends one of its namespace.
type workers struct {
	t       *testing.T
	running map[string]int
	handed  chan reconcile.Request
	end     map[string]chan struct{}
	ended   chan string
}

// work starts the workers of a queue, which end with it.
func work(t *testing.T, q *Queue, namespaces ...string) *workers {
	w := &workers{
		t: t, running: map[string]int{}, handed: make(chan reconcile.Request, 1000), end: map[string]chan struct{}{}, ended: make(chan string, 1000),
	}
	for _, ns := range namespaces {
		w.end[ns] = make(chan struct{})
	}
	for range manyWorkers {
		go func() {
			for {
				r, _, shutdown := q.GetWithPriority()
				if shutdown {
					return
				}
				w.handed <- r
				<-w.end[r.Namespace]
				w.ended <- r.Namespace
				q.Done(r)
			}
		}()
	}
	return w
}

// expect checks how many requests of each namespace are being processed, after as many of a namespace have ended as ends says.
func (w *workers) expect(when string, ends, want map[string]int) {
	w.t.Helper()
	for ns, n := range ends {
		for range n {
			w.end[ns] <- struct{}{}
			synctest.Wait()
		}
	}
	synctest.Wait()
	for len(w.handed) > 0 {
		w.running[(<-w.handed).Namespace]++
	}
	for len(w.ended) > 0 {
		w.running[<-w.ended]--
	}
	maps.DeleteFunc(w.running, func(_ string, n int) bool { return n == 0 })
	if !maps.Equal(w.running, want) {
		w.t.Fatalf("%s, the workers have %v, want %v", when, w.running, want)
	}
}

// finish ends all requests, and the queue before.
func (w *workers) finish(q *Queue) {
	q.ShutDown()
	for _, end := range w.end {
		close(end)
	}
}

func requests(namespace string, n int) []reconcile.Request {
	var out []reconcile.Request
	for i := range n {
		out = append(out, request(namespace, fmt.Sprint(i)))
	}
	return out
}

// TestANamespaceHoldsHalfOfTheWorkersWhileOthersWait has a namespace with requests that are never done, whose priority is the highest, and one
// whose requests come at the same time.
func TestANamespaceHoldsHalfOfTheWorkersWhileOthersWait(t *testing.T) {
	test(t, func(t *testing.T, q *Queue) {
		q.AddWithOpts(with(2, 0), requests("slow", 40)...)
		q.AddWithOpts(with(0, 0), requests("other", 40)...)
		w := work(t, q, "slow", "other")
		defer w.finish(q)
		w.expect("at the start", nil, map[string]int{"slow": 8, "other": 8})
		w.expect("after requests of the other namespace", map[string]int{"other": 5}, map[string]int{"slow": 8, "other": 8})
		w.expect("after requests of the slow namespace", map[string]int{"slow": 5}, map[string]int{"slow": 8, "other": 8})
	})
}

// TestANamespaceAloneHoldsAllWorkers has another namespace come while all workers process requests of one that has many more. The other one gets
// each worker that is free, up to its half, and the first one all of them again once nobody else waits.
func TestANamespaceAloneHoldsAllWorkers(t *testing.T) {
	test(t, func(t *testing.T, q *Queue) {
		q.AddWithOpts(with(2, 0), requests("slow", 100)...)
		w := work(t, q, "slow", "other")
		defer w.finish(q)
		w.expect("at the start", nil, map[string]int{"slow": 16})
		q.AddWithOpts(with(-1, 0), requests("other", 10)...)
		w.expect("before one has ended", nil, map[string]int{"slow": 16})
		w.expect("after one has ended", map[string]int{"slow": 1}, map[string]int{"slow": 15, "other": 1})
		w.expect("after eight have ended", map[string]int{"slow": 7}, map[string]int{"slow": 8, "other": 8})
		w.expect("after the next", map[string]int{"slow": 3}, map[string]int{"slow": 8, "other": 8})
		w.expect("while two of the other are left", map[string]int{"other": 2}, map[string]int{"slow": 8, "other": 8})
		w.expect("after the other", map[string]int{"other": 8}, map[string]int{"slow": 16})
	})
}

// TestWhatANamespaceIsNotGivenIsNotKept has a namespace hold half of the workers while others are given much. It does not make up for that when its
// requests are done.
func TestWhatANamespaceIsNotGivenIsNotKept(t *testing.T) {
	o := newOrder(few, 2)
	for _, r := range requests("slow", 5000) {
		o.push(r, 2)
	}
	slow := []reconcile.Request{o.Pop(), o.Pop()}
	for _, r := range requests("other", 5000) {
		o.push(r, 0)
	}
	for i := range 50 * few {
		r := o.Pop()
		if r.Namespace != "other" {
			t.Fatalf("request %d is %v", i, r)
		}
		o.done(r)
	}
	for _, r := range slow {
		o.done(r)
	}
	for range 3*few + 1 {
		r := o.Pop()
		if r.Namespace == "other" {
			return
		}
		o.done(r)
	}
	t.Errorf("the other namespace waits for more than %d requests", 3*few)
}
