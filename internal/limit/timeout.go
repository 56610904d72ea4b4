package limit

import (
	"context"
	"sync"
	"time"
)

// WithTimeout is context.WithTimeout, but the time in which Acquire waits does not count: how long that is, others decide. What waits comes to
// its turn, since those before it have timeouts. Where it has waited for as long as it may work, waits is called once, unless it is nil. The
// contexts that a context is made of do not count its waits, either. Of work that goes on at once for one context, one that waits is enough.
func WithTimeout(ctx context.Context, timeout time.Duration, waits func()) (context.Context, context.CancelFunc) {
	t := &timed{Context: ctx, outer: timedOf(ctx), done: make(chan struct{}), left: timeout, patience: timeout, waits: waits}
	unlink := context.AfterFunc(ctx, func() { t.end(ctx.Err()) })
	left := func() bool { return true }
	if t.outer != nil {
		left = context.AfterFunc(t.outer, t.orphan)
	}
	t.mu.Lock()
	t.run()
	t.mu.Unlock()
	return t, func() {
		unlink()
		left()
		t.end(context.Canceled)
	}
}

// Like has a context count for the namespace of another one, whose timeout does not count its waits, either: it is for work that several may
// wait for, and that goes on when the first of them has gone. From then on its waits count, so that no work piles up that nobody asks for.
func Like(ctx, other context.Context) context.Context {
	return context.WithValue(WithNamespace(ctx, NamespaceOf(other)), timedKey{}, timedOf(other))
}

type timedKey struct{}

// timedOf is the innermost timeout of a context; nil for none.
func timedOf(ctx context.Context) *timed {
	t, _ := ctx.Value(timedKey{}).(*timed)
	return t
}

// timed is a context with a timeout that stands still.
type timed struct {
	context.Context //nolint:containedctx // it is a context itself
	outer           *timed
	done            chan struct{}

	mu  sync.Mutex
	err error
	// left is what is left to work when since was, and timer ends that.
	left  time.Duration
	since time.Time
	timer *time.Timer
	// waiting counts what waits, which no longer stops the time once the timeout around it has ended. patience is how much longer that is before waits is called, as it was when since was.
	waiting  int
	orphaned bool
	patience time.Duration
	waits    func()
}

// Value implements context.Context.
func (t *timed) Value(key any) any {
	if key == (timedKey{}) {
		return t
	}
	return t.Context.Value(key)
}

// Done implements context.Context.
func (t *timed) Done() <-chan struct{} { return t.done }

// Err implements context.Context.
func (t *timed) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Deadline implements context.Context. It tells when the context ends if nothing waits from now on.
func (t *timed) Deadline() (time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	since := t.since
	if t.waiting > 0 && !t.orphaned {
		since = time.Now()
	}
	own := since.Add(t.left)
	if outer, limited := t.Context.Deadline(); limited && outer.Before(own) {
		return outer, true
	}
	return own, true
}

// run lets the time pass.
func (t *timed) run() {
	t.since = time.Now()
	t.timer = time.AfterFunc(t.left, t.expire)
}

// expire ends the context, unless it waits since just now.
func (t *timed) expire() {
	t.mu.Lock()
	late := (t.waiting == 0 || t.orphaned) && time.Since(t.since) >= t.left
	t.mu.Unlock()
	if late {
		t.end(context.DeadlineExceeded)
	}
}

// end ends the context, once.
func (t *timed) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return
	}
	t.err = err
	t.timer.Stop()
	close(t.done)
}

// orphan has the time pass from now on, whatever waits.
func (t *timed) orphan() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.orphaned || t.err != nil {
		return
	}
	t.orphaned = true
	if t.waiting > 0 {
		t.timer.Stop()
		t.run()
	}
}

// pause stops the time of a timeout and of those around it.
func (t *timed) pause() {
	for ; t != nil; t = t.outer {
		t.mu.Lock()
		if t.waiting++; t.waiting == 1 && t.err == nil && !t.orphaned {
			t.timer.Stop()
			t.left -= time.Since(t.since)
			t.since = time.Now()
			if t.waits != nil {
				t.timer = time.AfterFunc(t.patience, t.waits)
			}
		}
		t.mu.Unlock()
	}
}

// resume has it pass again.
func (t *timed) resume() {
	for ; t != nil; t = t.outer {
		t.mu.Lock()
		if t.waiting--; t.waiting == 0 && t.err == nil && !t.orphaned {
			if t.timer.Stop() {
				t.patience -= time.Since(t.since)
			} else {
				t.waits = nil
			}
			t.run()
		}
		t.mu.Unlock()
	}
}
