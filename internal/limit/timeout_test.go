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

// TestATimeoutBeginsAgain has work in two parts, of which the second one has as long as the first one had, and waits before it begins.
func TestATimeoutBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(1, 1)
		ctx, cancel := WithTimeout(t.Context(), 3*time.Minute, nil)
		defer cancel()
		child, end := context.WithCancel(ctx)
		defer end()
		time.Sleep(2 * time.Minute)
		Again(child)
		l.Acquire(t.Context(), "other", 1)
		time.AfterFunc(time.Minute, func() { Again(child) })
		time.AfterFunc(time.Hour, func() { l.Release("other", 1) })
		time.Sleep(time.Second)
		if !l.Acquire(child, "ns", 1) {
			t.Fatal("it was given nothing")
		}
		if deadline, _ := child.Deadline(); time.Until(deadline) != 3*time.Minute {
			t.Errorf("it has %s left", time.Until(deadline))
		}
		time.Sleep(3*time.Minute - time.Second)
		if child.Err() != nil {
			t.Error("it ended too early")
		}
		<-child.Done()
		Again(child)
		time.Sleep(time.Hour)
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("it ended with %v", ctx.Err())
		}
		Again(t.Context()) // There is none.
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
		caller, gone := WithTimeout(t.Context(), time.Minute, nil)
		work, cancel := NewShared(WithNamespace(t.Context(), "ns"), 2*time.Minute)
		defer cancel()
		leave := work.Join(caller)
		time.AfterFunc(30*time.Minute, func() {
			if deadline, _ := caller.Deadline(); caller.Err() != nil || time.Until(deadline) != time.Minute {
				t.Errorf("its caller: %v, %s left", caller.Err(), time.Until(deadline))
			}
			leave()
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

// TestWorkForSeveralWaitsForEach has callers join while it waits, one of them without a timeout, and go before it has its turn.
func TestWorkForSeveralWaitsForEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, told := New(1, 1), atomic.Int32{}
		l.Acquire(t.Context(), "other", 1)
		work, cancel := NewShared(t.Context(), 2*time.Minute)
		defer cancel()
		first, end := WithTimeout(t.Context(), time.Minute, nil)
		defer end()
		second, stop := WithTimeout(t.Context(), time.Minute, func() { told.Add(1) })
		defer stop()
		leaveFirst := work.Join(first)
		time.AfterFunc(30*time.Second, func() {
			leaveSecond := work.Join(second)
			time.AfterFunc(10*time.Minute, leaveFirst)
			time.AfterFunc(20*time.Minute, leaveSecond)
		})
		// Nobody waits for it for a minute, and then one without a timeout.
		time.AfterFunc(21*time.Minute+30*time.Second, func() { work.Join(t.Context()) })
		time.AfterFunc(time.Hour, func() { l.Release("other", 1) })
		if !l.Acquire(work, "ns", 1) {
			t.Fatalf("it was given nothing: %v", work.Err())
		}
		if deadline, _ := work.Deadline(); time.Until(deadline) != time.Minute {
			t.Errorf("it has %s left", time.Until(deadline))
		}
		if !errors.Is(first.Err(), context.DeadlineExceeded) || !errors.Is(second.Err(), context.DeadlineExceeded) || told.Load() != 1 {
			t.Errorf("%v, %v, and %d were told that they wait", first.Err(), second.Err(), told.Load())
		}
	})
}

// TestWhoGoesHasItsTimePassAgain has a caller that joins work that waits, and goes on with something else.
func TestWhoGoesHasItsTimePassAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(1, 1)
		l.Acquire(t.Context(), "other", 1)
		work, cancel := NewShared(t.Context(), 2*time.Minute)
		defer cancel()
		caller, end := WithTimeout(t.Context(), time.Minute, nil)
		defer end()
		go l.Acquire(work, "ns", 1)
		synctest.Wait()
		time.Sleep(10 * time.Second)
		leave := work.Join(caller)
		time.Sleep(time.Hour)
		leave()
		if deadline, _ := caller.Deadline(); time.Until(deadline) != 50*time.Second {
			t.Errorf("it has %s left", time.Until(deadline))
		}
		time.Sleep(51 * time.Second)
		if !errors.Is(caller.Err(), context.DeadlineExceeded) {
			t.Errorf("it ended with %v", caller.Err())
		}
		// Nobody waits for the work but for ten seconds before.
		if deadline, _ := work.Deadline(); work.Err() != nil || time.Until(deadline) != time.Minute-time.Second {
			t.Errorf("the work: %v, %s left", work.Err(), time.Until(deadline))
		}
	})
}
