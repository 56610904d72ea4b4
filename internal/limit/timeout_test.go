package limit

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestATimeoutStandsStillWhileOneWaits has one within another, of which the inner one ends by its own time.
func TestATimeoutStandsStillWhileOneWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, told := New(1, 1), atomic.Int32{}
		outer, cancel := WithTimeout(t.Context(), 10*time.Minute, func() { told.Add(1) })
		defer cancel()
		inner, stop := WithTimeout(outer, 3*time.Minute, nil)
		defer stop()
		child, end := context.WithCancel(inner)
		defer end()
		for range 3 {
			l.Acquire(t.Context(), "other", 1)
			time.AfterFunc(5*time.Minute, func() { l.Release("other", 1) })
			if !l.Acquire(child, "ns", 1) {
				t.Fatal("it was given nothing")
			}
			time.Sleep(30 * time.Second)
			l.Release("ns", 1)
		}
		// It has waited for 15 minutes and worked for one and a half.
		if got := told.Load(); got != 1 {
			t.Errorf("it was told %d times that it waits", got)
		}
		if deadline, _ := child.Deadline(); time.Until(deadline) != 90*time.Second {
			t.Errorf("it has %s left", time.Until(deadline))
		}
		time.Sleep(89 * time.Second)
		if child.Err() != nil || inner.Err() != nil {
			t.Errorf("it ended too early: %v", inner.Err())
		}
		<-child.Done()
		for name, ctx := range map[string]context.Context{"inner": inner, "child": child} {
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) || !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				t.Errorf("the %s one ended with %v, %v", name, ctx.Err(), context.Cause(ctx))
			}
		}
		if deadline, _ := outer.Deadline(); outer.Err() != nil || time.Until(deadline) != 7*time.Minute {
			t.Errorf("the outer one: %v, %s left", outer.Err(), time.Until(deadline))
		}
	})
}

// TestATimeoutEndsWithItsContext has one that ends while it waits, and one that waits for nobody.
func TestATimeoutEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(1, 1)
		l.Acquire(t.Context(), "other", 1)
		first, leave := context.WithCancel(t.Context())
		ctx, cancel := WithTimeout(first, time.Minute, nil)
		defer cancel()
		time.AfterFunc(time.Hour, leave)
		if l.Acquire(ctx, "ns", 1) || !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("it ended with %v", ctx.Err())
		}
		free, stop := WithTimeout(t.Context(), time.Minute, nil)
		if deadline, _ := free.Deadline(); time.Until(deadline) != time.Minute || !New(1, 1).Acquire(free, "ns", 1) {
			t.Errorf("it has %s", time.Until(deadline))
		}
		stop()
		if !errors.Is(free.Err(), context.Canceled) {
			t.Errorf("stopped: %v", free.Err())
		}
	})
}

// TestWorkForSeveralIsLikeThatOfTheFirst has what goes on when its caller has gone, but no longer than it may without a wait.
func TestWorkForSeveralIsLikeThatOfTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(1, 1)
		l.Acquire(t.Context(), "other", 1)
		time.AfterFunc(time.Hour, func() { l.Release("other", 1) })
		caller, gone := WithTimeout(WithNamespace(t.Context(), "ns"), time.Minute, nil)
		work, cancel := WithTimeout(Like(t.Context(), caller), 2*time.Minute, nil)
		defer cancel()
		time.AfterFunc(30*time.Minute, func() {
			if deadline, _ := caller.Deadline(); caller.Err() != nil || time.Until(deadline) != time.Minute {
				t.Errorf("its caller: %v, %s left", caller.Err(), time.Until(deadline))
			}
			gone()
		})
		began := time.Now()
		if NamespaceOf(work) != "ns" || l.Acquire(work, NamespaceOf(work), 1) || !errors.Is(work.Err(), context.DeadlineExceeded) {
			t.Errorf("of %q it ended with %v", NamespaceOf(work), work.Err())
		}
		if got := time.Since(began); got != 32*time.Minute {
			t.Errorf("it ended after %s", got)
		}
	})
}
