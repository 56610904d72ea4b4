package limit

import (
	"context"
	"slices"
	"sync"
	"time"
)

// WithTimeout is context.WithTimeout, but the time in which Acquire waits does not count: how long that is, others decide. What waits comes to
// its turn, since those before it have timeouts. Where it has waited for as long as it may work, waits is called once, unless it is nil. The
// contexts that a context is made of do not count its waits, either. Of work that goes on at once for one context, one that waits is enough.
func WithTimeout(ctx context.Context, timeout time.Duration, waits func()) (context.Context, context.CancelFunc) {
	t := &timed{Context: ctx, done: make(chan struct{}), whole: timeout, left: timeout, patience: timeout, waits: waits}
	if outer := timedOf(ctx); outer != nil {
		t.outer = []*timed{outer}
	}
	return t, t.begin()
}

// Again has the innermost timeout of a context begin again, for work in parts each of which has all of it, such as a download and what is made of
// it. A context that has ended stays so.
func Again(ctx context.Context) {
	t := timedOf(ctx)
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return
	}
	t.left = t.whole
	if !t.stands() {
		t.timer.Stop()
		t.run()
	}
}

// Shared is the context of work that several callers may wait for, and that goes on when some of them have gone. While nobody waits for it, its
// own waits count, so that no work piles up that nobody asks for.
type Shared struct{ *timed }

// NewShared returns one with a timeout as of WithTimeout, which nobody waits for yet.
func NewShared(ctx context.Context, timeout time.Duration) (Shared, context.CancelFunc) {
	t := &timed{Context: ctx, shared: true, done: make(chan struct{}), whole: timeout, left: timeout}
	return Shared{t}, t.begin()
}

// Join has a caller wait for the work until leave is called, which is called once. The timeouts of the caller do not count what the work waits
// meanwhile.
func (s Shared) Join(caller context.Context) (leave func()) {
	t, one := s.timed, timedOf(caller)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outer = append(t.outer, one)
	if t.waiting > 0 {
		one.pause()
		if len(t.outer) == 1 {
			t.stand()
		}
	}
	return func() { t.leave(one) }
}

func (t *timed) leave(one *timed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.outer, one)
	t.outer = slices.Delete(t.outer, i, i+1)
	if t.waiting > 0 {
		one.resume()
		if len(t.outer) == 0 {
			t.pass()
		}
	}
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
	done            chan struct{}
	// shared says that it is that of work for those that join it.
	shared bool

	// mu is locked before that of an outer one.
	mu  sync.Mutex
	err error
	// outer are the timeouts that do not count its waits, either: the one around it, or one for each caller of shared work, nil for a caller
	// without.
	outer []*timed
	// whole is how long it may work, left what is left of that when since was, and timer ends it.
	whole time.Duration
	left  time.Duration
	since time.Time
	timer *time.Timer
	// waiting counts what waits. patience is how much longer that is before waits is called, as it was when since was.
	waiting  int
	patience time.Duration
	waits    func()
}

// begin lets the time pass, and returns what ends the context.
func (t *timed) begin() context.CancelFunc {
	t.mu.Lock()
	t.run()
	t.mu.Unlock()
	if err := t.Context.Err(); err != nil {
		t.end(err)
	}
	unlink := context.AfterFunc(t.Context, func() { t.end(t.Context.Err()) })
	return func() {
		unlink()
		t.end(context.Canceled)
	}
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
	if t.stands() {
		since = time.Now()
	}
	own := since.Add(t.left)
	if outer, limited := t.Context.Deadline(); limited && outer.Before(own) {
		return outer, true
	}
	return own, true
}

// stands says that the time stands still: something waits, and somebody waits for that.
func (t *timed) stands() bool { return t.waiting > 0 && (!t.shared || len(t.outer) > 0) }

// run lets the time pass.
func (t *timed) run() {
	t.since = time.Now()
	t.timer = time.AfterFunc(t.left, t.expire)
}

// expire ends the context, unless it waits since just now.
func (t *timed) expire() {
	t.mu.Lock()
	late := !t.stands() && time.Since(t.since) >= t.left
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

// stand has the time stand still from now on.
func (t *timed) stand() {
	if t.err != nil {
		return
	}
	t.timer.Stop()
	t.left -= time.Since(t.since)
	t.since = time.Now()
	if t.waits != nil {
		t.timer = time.AfterFunc(t.patience, t.waits)
	}
}

// pass has it pass again.
func (t *timed) pass() {
	if t.err != nil {
		return
	}
	if t.timer.Stop() {
		t.patience -= time.Since(t.since)
	} else {
		t.waits = nil
	}
	t.run()
}

// pause has something wait, for which the time of a timeout and of those around it stands still.
func (t *timed) pause() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting++; t.waiting == 1 {
		if t.stands() {
			t.stand()
		}
		for _, outer := range t.outer {
			outer.pause()
		}
	}
}

// resume has one thing less wait.
func (t *timed) resume() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	stood := t.stands()
	if t.waiting--; t.waiting == 0 {
		if stood {
			t.pass()
		}
		for _, outer := range t.outer {
			outer.resume()
		}
	}
}
