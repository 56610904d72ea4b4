package fairqueue

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// few is the share of these tests: requests of a namespace exceed it often.
const few = 16

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// push queues a request as the work queue does: Touch if it is queued already.
func (o *order) push(r reconcile.Request, priority int) {
	o.request(r, priority)
	if o.queued[r] != nil {
		o.Touch(r)
		return
	}
	o.Push(r)
}

// TestANamespaceWaitsForFewRequestsOfAnother has a tenant with 5,000 resources, each of which is added again with the highest priority as
// soon as it was handed out. The only request of another namespace waits for the rest of the first round, and after that for none.
func TestANamespaceWaitsForFewRequestsOfAnother(t *testing.T) {
	o := newOrder(few, math.MaxInt)
	for i := range 5000 {
		o.push(request("busy", fmt.Sprint(i)), 2)
	}
	for _, before := range []int{few - 3, 2, 0, 1, few, 777} {
		for range before {
			r := o.Pop()
			o.push(r, 2)
		}
		rest := 0
		if o.round == 0 {
			rest = few - o.namespaces["busy"].used
		}
		o.push(request("quiet", "x"), -1)
		waited := 0
		for o.Pop().Namespace != "quiet" {
			if waited++; waited > rest {
				t.Fatalf("after %d requests, the next %d are of the same namespace, of which %d may be", before, waited, rest)
			}
			o.push(request("busy", fmt.Sprint(waited)), 2)
		}
	}
}

// TestWhatIsLeftOfTheLastRoundIsUsedOnce has a namespace with pauses beside one that never empties: it does not get more for them.
func TestWhatIsLeftOfTheLastRoundIsUsedOnce(t *testing.T) {
	o, ahead := newOrder(few, math.MaxInt), 0
	for i := range 5000 {
		o.push(request("busy", fmt.Sprint(i)), 0)
	}
	for i := range 100 * few {
		if pause := i/few%3 == 0; !pause {
			o.push(request("pausing", "x"), 2)
		}
		if r := o.Pop(); r.Namespace == "busy" {
			ahead--
			o.push(r, 0)
		} else if ahead++; ahead > 2*few {
			t.Fatalf("after %d requests, one namespace had %d more than the other", i+1, ahead)
		}
	}
}

// TestWithinARoundPrioritiesCountAcrossNamespaces has many namespaces with few requests each: priority decides, then first in, first out.
func TestWithinARoundPrioritiesCountAcrossNamespaces(t *testing.T) {
	o := newOrder(few, math.MaxInt)
	for i := range 100 {
		o.push(request(fmt.Sprint("ns-", i), "new"), 0)
	}
	o.push(request("ns-50", "edited"), 2)
	o.push(request("ns-70", "new"), 1)
	want := []reconcile.Request{request("ns-50", "edited"), request("ns-70", "new"), request("ns-0", "new"), request("ns-1", "new")}
	for i, next := range want {
		if got := o.Pop(); got != next {
			t.Errorf("request %d is %v, not %v", i, got, next)
		}
	}
	if o.Len() != 97 {
		t.Errorf("%d requests are queued", o.Len())
	}
}

// model is what a random sequence of additions leaves queued, and what each namespace has waited for.
type model struct {
	priorities map[reconcile.Request]int
	// waited counts the requests of others that were handed out since a namespace has had queued requests without one of its own.
	waited map[string]map[string]int
}

func (m *model) add(r reconcile.Request, priority int) {
	if already, ok := m.priorities[r]; ok {
		priority = max(priority, already)
	}
	m.priorities[r] = priority
}

// handedOut checks a request that was handed out, and removes it.
func (m *model) handedOut(t *testing.T, r reconcile.Request, priority int) {
	if want, ok := m.priorities[r]; !ok || want != priority {
		t.Fatalf("%v was handed out with priority %d; it is queued: %t, with %d", r, priority, ok, want)
	}
	waiting := map[string]bool{}
	for other, p := range m.priorities {
		waiting[other.Namespace] = true
		if other.Namespace == r.Namespace && p > priority {
			t.Fatalf("%v with priority %d was handed out before %v with %d", r, priority, other, p)
		}
	}
	delete(m.priorities, r)
	m.waited[r.Namespace] = nil
	for ns := range waiting {
		if ns == r.Namespace {
			continue
		}
		if m.waited[ns] == nil {
			m.waited[ns] = map[string]int{}
		}
		m.waited[ns][r.Namespace]++
		if n := m.waited[ns][r.Namespace]; n > 3*few {
			t.Fatalf("%s waited for %d requests of %s", ns, n, r.Namespace)
		}
	}
}

// TestOrderProperty adds and hands out at random, one namespace having most of the resources. Each request is handed out once, with the
// highest priority that it was added with; within a namespace priorities are kept; and no namespace waits for more than three shares of another.
func TestOrderProperty(t *testing.T) {
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 0))
		o, m := newOrder(few, math.MaxInt), &model{priorities: map[reconcile.Request]int{}, waited: map[string]map[string]int{}}
		for range 1000 {
			for range random.IntN(4) {
				r := request("busy", fmt.Sprint(random.IntN(5000)))
				if random.IntN(4) == 0 {
					r = request(fmt.Sprint("ns-", random.IntN(5)), fmt.Sprint(random.IntN(20)))
				}
				priority := random.IntN(4) - 1
				m.add(r, priority)
				o.push(r, priority)
			}
			if o.Len() != len(m.priorities) {
				t.Fatalf("seed %d: %d requests are queued, not %d", seed, o.Len(), len(m.priorities))
			}
			if o.Len() > 0 {
				r := o.Pop()
				m.handedOut(t, r, o.taken(r))
			}
		}
		for o.Len() > 0 {
			r := o.Pop()
			m.handedOut(t, r, o.taken(r))
		}
		if len(o.namespaces)+len(o.requested)+len(o.handedOut)+len(o.turns) > 0 || len(m.priorities) > 0 {
			t.Errorf("seed %d: an empty order remembers %+v", seed, o)
		}
	}
}

// TestAShareIsUsedUpByRequestsOneAfterTheOther has a namespace that never has more than one request queued, with the highest priority.
func TestAShareIsUsedUpByRequestsOneAfterTheOther(t *testing.T) {
	o := newOrder(few, math.MaxInt)
	o.push(request("quiet", "x"), 0)
	for i := range few + 1 {
		o.push(request("busy", fmt.Sprint(i)), 2)
		if o.Pop().Namespace == "quiet" {
			return
		}
	}
	t.Errorf("the request waits after %d of another namespace", few+1)
}

// TestTheOrderForgetsNamespacesOfEarlierRounds has namespaces that come once, while one never empties.
func TestTheOrderForgetsNamespacesOfEarlierRounds(t *testing.T) {
	o := newOrder(few, math.MaxInt)
	for i := range 5000 {
		o.push(request("busy", fmt.Sprint(i)), 0)
	}
	for i := range 1000 {
		o.push(request(fmt.Sprint("ns-", i), "x"), 2)
		o.Pop()
		o.Pop()
	}
	if n := len(o.namespaces); n > 3*few {
		t.Errorf("%d namespaces are remembered", n)
	}
}
