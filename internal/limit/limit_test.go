package limit

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
)

// requests has requests of namespaces wait, and notes in which order they are granted.
type requests struct {
	t     *testing.T
	limit *Limit
	order []string
}

func (r *requests) wait(ctx context.Context, namespace, name string, n int64) {
	go func() {
		if r.limit.Acquire(ctx, namespace, n) {
			r.order = append(r.order, name)
		}
	}()
	synctest.Wait()
}

func (r *requests) release(namespaces ...string) {
	for _, namespace := range namespaces {
		r.limit.Release(namespace, 1)
		synctest.Wait()
	}
}

func (r *requests) check(want ...string) {
	r.t.Helper()
	if !slices.Equal(r.order, want) {
		r.t.Errorf("the order is %v, not %v", r.order, want)
	}
}

// TestWhatIsFreeIsForTheNamespaceThatUsesTheLeast has everything in use and waiting requests of three namespaces.
func TestWhatIsFreeIsForTheNamespaceThatUsesTheLeast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &requests{t: t, limit: New(3, 2)}
		ctx, cancel := context.WithCancel(t.Context())
		for _, namespace := range []string{"a", "a", "b"} {
			r.wait(ctx, namespace, "first of "+namespace, 1)
		}
		r.order = nil
		dropped, drop := context.WithCancel(ctx)
		r.wait(ctx, "a", "a1", 1)
		r.wait(ctx, "b", "b1", 1)
		r.wait(dropped, "c", "dropped", 1)
		r.wait(ctx, "c", "c1", 1)
		r.wait(ctx, "c", "c2", 1)
		drop()
		synctest.Wait()
		r.release("b", "a", "c", "b", "c")
		// b and c use none when the first is free, and c was given none before. b uses none when the second is free, and c none when the third is.
		r.check("c1", "b1", "c2", "a1")
		cancel()
		synctest.Wait()
		if len(r.limit.waiting) > 0 {
			t.Errorf("%d requests wait", len(r.limit.waiting))
		}
	})
}

// TestANamespaceTakesTurns has one that asks for much, and one that comes later with little, where one is served at a time.
func TestANamespaceTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &requests{t: t, limit: New(1, 1)}
		for _, name := range []string{"a1", "a2", "a3", "a4"} {
			r.wait(t.Context(), "a", name, 1)
		}
		r.wait(t.Context(), "b", "b1", 1)
		r.wait(t.Context(), "b", "b2", 1)
		r.release("a", "b", "a", "b", "a", "a")
		r.check("a1", "b1", "a2", "b2", "a3", "a4")
	})
}

// TestWhoComesAndGoesStarvesNobody has two that ask for little, again and again, beside one that asks for two things at once.
func TestWhoComesAndGoesStarvesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := &requests{t: t, limit: New(1, 1)}
		for _, namespace := range []string{"a", "a", "b", "c"} {
			r.wait(ctx, namespace, namespace, 1)
		}
		for range 4 {
			holder := r.order[len(r.order)-1]
			r.release(holder)
			r.wait(ctx, holder, holder, 1)
		}
		r.check("a", "b", "c", "a", "b")
		cancel()
	})
}

// TestALargeRequestIsNotStarved has small requests come behind a large one that does not fit yet.
func TestALargeRequestIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &requests{t: t, limit: New(4, 4)}
		ctx, cancel := context.WithCancel(t.Context())
		r.wait(ctx, "a", "small", 1)
		r.wait(ctx, "b", "large", 100)
		r.wait(ctx, "c", "later", 1)
		r.check("small")
		r.release("a")
		r.check("small", "large")
		r.limit.Release("b", 100)
		synctest.Wait()
		r.check("small", "large", "later")
		// Who waits for one that gives up is served.
		gone, leave := context.WithCancel(ctx)
		r.wait(gone, "d", "gone", 4)
		r.wait(ctx, "e", "behind it", 1)
		r.check("small", "large", "later")
		leave()
		synctest.Wait()
		r.check("small", "large", "later", "behind it")
		cancel()
	})
}

// TestWhatIsKeptIsForThoseWhoUseNothing has a namespace that uses all that it may while others wait, and then two that ask for the first time.
func TestWhatIsKeptIsForThoseWhoUseNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := &requests{t: t, limit: NewKeeping(4, 3, 2)}
		for _, name := range []string{"a1", "a2", "a3"} {
			r.wait(ctx, "a", name, 1)
		}
		r.check("a1", "a2")
		for _, name := range []string{"b", "c"} {
			r.wait(ctx, name, name+"1", 1)
			r.wait(ctx, name, name+"2", 1)
		}
		r.check("a1", "a2", "b1", "c1")
		// One is free, of those that are kept: nobody who uses nothing waits for it.
		r.release("a")
		r.check("a1", "a2", "b1", "c1")
		r.release("a", "b")
		r.check("a1", "a2", "b1", "c1", "a3", "b2")
		cancel()
	})
}

func TestNamespacesThatEndedAreForgotten(t *testing.T) {
	l := New(2, 1)
	for _, namespace := range []string{"a", "b"} {
		if !l.Acquire(t.Context(), namespace, 1) {
			t.Fatal("what is free is not granted")
		}
		l.Release(namespace, 1)
	}
	if len(l.used) > 0 || l.busy != 0 || len(l.last) > 0 {
		t.Errorf("in use: %v, %d; remembered: %v", l.used, l.busy, l.last)
	}
}
