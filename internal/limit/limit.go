// Package limit shares what is scarce among namespaces, such as slots or bytes. It owns who waits and who is next. It knows nothing of
// what the shares are used for, and touches no cluster.
package limit

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// Limit bounds how much is in use at once, by all namespaces and by each. What is free is given to the namespace that uses the least,
// among equal ones to that which was given something longest ago, and then to the request that has waited longest. A request that is next
// and does not fit waits without being overtaken, so that a large one is not starved by small ones.
type Limit struct {
	total, each int64
	// kept is how much of total is for namespaces that use nothing.
	kept int64

	mu sync.Mutex
	// used is what is in use by namespace, and busy the sum.
	used map[string]int64
	busy int64
	// given counts the grants, and last is the number of the last one by namespace, of those that use or wait for something.
	given int
	last  map[string]int
	// waiting are the requests that were not granted yet, that which has waited longest first.
	waiting []*waiter
}

// waiter is a request that waits; granted is closed when it has what it asked for.
type waiter struct {
	namespace string
	n         int64
	granted   chan struct{}
}

// New returns a limit of total, of which each namespace may use at most each.
func New(total, each int64) *Limit {
	return &Limit{total: total, each: min(total, each), used: map[string]int64{}, last: map[string]int{}}
}

// NewKeeping returns a limit as New does, of which kept is for namespaces that use nothing: one that asks for the first time waits for none of
// those that use the rest for long, unless there are many of them.
func NewKeeping(total, each, kept int64) *Limit {
	l := New(total, each)
	l.kept = kept
	return l
}

// Acquire waits for n, or for all that a namespace may have where that is less. It returns false, without anything, when the context
// ends before. The time of a context of WithTimeout stands still while it waits.
func (l *Limit) Acquire(ctx context.Context, namespace string, n int64) bool {
	w := &waiter{namespace: namespace, n: min(n, l.each), granted: make(chan struct{})}
	l.mu.Lock()
	if _, known := l.last[namespace]; !known {
		// It comes before the one that was served last, and after those that have waited since before. Otherwise several that come and go
		// would be next all the time.
		l.last[namespace] = l.given - 1
	}
	l.waiting = append(l.waiting, w)
	l.grant()
	l.mu.Unlock()
	select {
	case <-w.granted:
		return true
	default:
	}
	time := timedOf(ctx)
	time.pause()
	defer time.resume()
	select {
	case <-w.granted:
		return true
	case <-ctx.Done():
		return l.cancel(w)
	}
}

// TryAcquire acquires n as Acquire does, but waits for nobody: it returns false, without anything, where n is not free. It overtakes those that
// wait, and is for limits that nobody waits for.
func (l *Limit) TryAcquire(namespace string, n int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n = min(n, l.each); l.busy+n > l.total || l.used[namespace]+n > l.each {
		return false
	}
	l.give(namespace, n)
	return true
}

// cancel ends the wait of a request. It returns true when it was granted meanwhile.
func (l *Limit) cancel(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, w)
	if i < 0 {
		return true
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
	l.forget(w.namespace)
	// It may have been the one that was next and did not fit.
	l.grant()
	return false
}

// Release returns what was acquired.
func (l *Limit) Release(namespace string, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = min(n, l.each)
	l.busy -= n
	if l.used[namespace] -= n; l.used[namespace] == 0 {
		delete(l.used, namespace)
	}
	l.forget(namespace)
	l.grant()
}

// forget forgets a namespace that neither uses nor waits for anything.
func (l *Limit) forget(namespace string) {
	waits := slices.ContainsFunc(l.waiting, func(w *waiter) bool { return w.namespace == namespace })
	if !waits && l.used[namespace] == 0 {
		delete(l.last, namespace)
	}
}

// grant gives what is free to those that wait.
func (l *Limit) grant() {
	for {
		i := l.next()
		if i < 0 || l.busy+l.waiting[i].n > l.total {
			return
		}
		w := l.waiting[i]
		l.waiting = slices.Delete(l.waiting, i, i+1)
		l.give(w.namespace, w.n)
		close(w.granted)
	}
}

func (l *Limit) give(namespace string, n int64) {
	l.busy += n
	l.used[namespace] += n
	l.given++
	l.last[namespace] = l.given
}

// next is the index of the request that is granted next, -1 where none may be.
func (l *Limit) next() int {
	best := -1
	for i, w := range l.waiting {
		if l.admits(w) && (best < 0 || l.before(w.namespace, l.waiting[best].namespace)) {
			best = i
		}
	}
	return best
}

// admits says that a namespace may use what a request asks for once that is free. Of what is kept it is given nothing beside what it uses.
func (l *Limit) admits(w *waiter) bool {
	used := l.used[w.namespace]
	return used+w.n <= l.each && (used == 0 || l.busy+w.n <= l.total-l.kept)
}

// before says that a namespace is to be given something before another one.
func (l *Limit) before(a, b string) bool {
	return cmp.Or(cmp.Compare(l.used[a], l.used[b]), cmp.Compare(l.last[a], l.last[b])) < 0
}

type namespaceKey struct{}

// WithNamespace has what is acquired for a context count for a namespace.
func WithNamespace(ctx context.Context, namespace string) context.Context {
	return context.WithValue(ctx, namespaceKey{}, namespace)
}

// NamespaceOf is the namespace that a context counts for; empty for none.
func NamespaceOf(ctx context.Context) string {
	namespace, _ := ctx.Value(namespaceKey{}).(string)
	return namespace
}
