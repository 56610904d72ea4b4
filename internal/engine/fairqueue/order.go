package fairqueue

import (
	"cmp"
	"container/heap"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// share is how many requests of one namespace are handed out in one round. Priority alone orders what is less: with a smaller share, the
// custom resources of a namespace that became healthy would wait for the creations of all others in their round.
const share = 128

// order is the order in which requests are handed out. It implements workqueue.Queue, which calls Touch, Push, Len and Pop under its own
// lock; mu guards everything, since request, taken and done are called without that one.
//
// Requests are handed out in rounds. A round has at most share requests of each namespace, by priority and then first in, first out.
// A namespace without requests keeps what it has not used of the last round. So a few requests beside a namespace that has used up a share
// are next, whatever their priorities are: a repair does not wait for the edits of another tenant. In the worst case, the next request of
// a namespace is handed out after three times share requests of each other namespace: the last round, this one and the next one.
//
// The requests of a namespace of which so many are being processed that it holds half of the workers come after those of all others: rounds
// bound how many requests others wait for, and not how long each takes. Whoever comes while a namespace has all workers waits for the first
// of them that is free.
type order struct {
	// share is how many requests of one namespace a round has, and most how many of one namespace are processed at once while others wait.
	share, most int

	mu sync.Mutex
	// requested are the priorities of requests that Push or Touch has not seen yet. The work queue calls neither for a request that is
	// being processed until it is done.
	requested map[reconcile.Request]int
	// handedOut are the priorities of the requests that Pop returned and taken has not read yet.
	handedOut map[reconcile.Request]int

	queued     map[reconcile.Request]*item
	namespaces map[string]*namespace
	// turns has each namespace with queued requests, that of the next request first.
	turns ordered[*namespace]
	// round is that of the last request that was handed out.
	round int
	// added counts the requests that were ever queued.
	added int
	// running counts the requests of each namespace that were handed out and are not done.
	running map[string]int
}

// namespace has the queued requests of one namespace, and what it has used of its share.
type namespace struct {
	items ordered[*item]
	// round is that of its next request, and used how many requests it had in that round.
	round, used int
	// holds says that so many of its requests are being processed that others come first.
	holds bool
	// index is the position in turns, -1 without queued requests.
	index int
}

// item is a queued request.
type item struct {
	request         reconcile.Request
	priority, added int
	index           int
}

func newOrder(share, most int) *order {
	return &order{
		share: share, most: most,
		requested: map[reconcile.Request]int{}, handedOut: map[reconcile.Request]int{},
		queued: map[reconcile.Request]*item{}, namespaces: map[string]*namespace{}, running: map[string]int{},
	}
}

// request notes the priority of a request that is about to be added; the highest counts.
func (o *order) request(r reconcile.Request, priority int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if already, ok := o.requested[r]; ok {
		priority = max(priority, already)
	}
	o.requested[r] = priority
}

// taken returns the priority of a request that Pop returned.
func (o *order) taken(r reconcile.Request) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	priority := o.handedOut[r]
	delete(o.handedOut, r)
	return priority
}

// requestedPriority returns what request noted, and forgets it.
func (o *order) requestedPriority(r reconcile.Request) (int, bool) {
	priority, ok := o.requested[r]
	delete(o.requested, r)
	return priority, ok
}

// done notes that a request that was handed out is not being processed any more.
func (o *order) done(r reconcile.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.running[r.Namespace]--; o.running[r.Namespace] <= 0 {
		delete(o.running, r.Namespace)
	}
	ns := o.namespaces[r.Namespace]
	if ns == nil || !ns.holds || o.running[r.Namespace] >= o.most {
		return
	}
	ns.holds = false
	o.catchUp(ns)
	if ns.index >= 0 {
		heap.Fix(&o.turns, ns.index)
	}
}

// catchUp has a namespace that was handed nothing meanwhile keep of its shares no more than that of the last round.
func (o *order) catchUp(ns *namespace) {
	if last := o.round - 1; ns.round < last {
		ns.round, ns.used = last, 0
	}
}

// Len is how many requests are queued.
func (o *order) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queued)
}

// Push adds a request.
func (o *order) Push(r reconcile.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	priority, _ := o.requestedPriority(r)
	ns := o.namespaces[r.Namespace]
	if ns == nil {
		ns = &namespace{index: -1, holds: o.running[r.Namespace] >= o.most}
		o.namespaces[r.Namespace] = ns
	}
	o.catchUp(ns)
	o.added++
	one := &item{request: r, priority: priority, added: o.added}
	o.queued[r] = one
	heap.Push(&ns.items, one)
	if ns.index < 0 {
		heap.Push(&o.turns, ns)
		return
	}
	heap.Fix(&o.turns, ns.index)
}

// Touch raises the priority of a queued request that is added again.
func (o *order) Touch(r reconcile.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	priority, ok := o.requestedPriority(r)
	one := o.queued[r]
	if !ok || one == nil || priority <= one.priority {
		return
	}
	ns := o.namespaces[r.Namespace]
	one.priority = priority
	heap.Fix(&ns.items, one.index)
	heap.Fix(&o.turns, ns.index)
}

// Pop removes the next request.
func (o *order) Pop() reconcile.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	ns := o.turns[0]
	next := heap.Pop(&ns.items).(*item)
	delete(o.queued, next.request)
	if ns.round > o.round {
		o.begin(ns.round)
	}
	if ns.used++; ns.used == o.share {
		ns.round, ns.used = ns.round+1, 0
	}
	o.running[next.request.Namespace]++
	ns.holds = o.running[next.request.Namespace] >= o.most
	if len(ns.items) == 0 {
		heap.Remove(&o.turns, ns.index)
	} else {
		heap.Fix(&o.turns, ns.index)
	}
	if len(o.queued) == 0 {
		// Nobody waits, so nobody has used more than a share.
		o.namespaces = map[string]*namespace{}
	}
	o.handedOut[next.request] = next.priority
	return next.request
}

// begin begins a round. What a namespace without requests used before the last round counts no more.
func (o *order) begin(round int) {
	o.round = round
	for name, ns := range o.namespaces {
		if ns.index < 0 && ns.round < round-1 {
			delete(o.namespaces, name)
		}
	}
}

// before orders two requests: a higher priority comes first, then what was added first.
func (i *item) before(other *item) int {
	return cmp.Or(cmp.Compare(other.priority, i.priority), cmp.Compare(i.added, other.added))
}

func (i *item) moved(index int) { i.index = index }

// before orders two namespaces with queued requests: one that holds half of the workers comes last, then by the round of the next request, then
// as these requests are.
func (n *namespace) before(other *namespace) int {
	if n.holds != other.holds {
		if n.holds {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(n.round, other.round), n.items[0].before(other.items[0]))
}

func (n *namespace) moved(index int) { n.index = index }

// element is what a heap orders. moved tells it its position, -1 when it was removed.
type element[E any] interface {
	before(other E) int
	moved(index int)
}

// ordered is a heap whose elements know their positions (container/heap).
type ordered[E element[E]] []E

func (s ordered[E]) Len() int           { return len(s) }
func (s ordered[E]) Less(i, j int) bool { return s[i].before(s[j]) < 0 }
func (s ordered[E]) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].moved(i)
	s[j].moved(j)
}

func (s *ordered[E]) Push(x any) {
	one := x.(E)
	one.moved(len(*s))
	*s = append(*s, one)
}

func (s *ordered[E]) Pop() any {
	var none E
	last := (*s)[len(*s)-1]
	(*s)[len(*s)-1] = none
	*s = (*s)[:len(*s)-1]
	last.moved(-1)
	return last
}
