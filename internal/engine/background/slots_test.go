package background

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
)

// TestANamespaceUsesAQuarterOfTheSlots has a namespace with a hundred jobs, and one with a single job that comes last.
func TestANamespaceUsesAQuarterOfTheSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newJobs()
		defer p.Stop()
		running := map[string]int{}
		run := func(owner string) {
			p.Get(owner, "chart", 0, func(ctx context.Context) any {
				p.mu.Lock()
				running[p.Namespace(owner)]++
				p.mu.Unlock()
				<-ctx.Done()
				return nil
			})
		}
		for i := range 100 {
			run("busy/" + string(rune('a'+i)))
		}
		synctest.Wait()
		run("quiet/x")
		synctest.Wait()
		if running["busy"] != maxJobs/4 || running["quiet"] != 1 {
			t.Errorf("running: %v", running)
		}
	})
}

// TestAFreeSlotIsForTheNamespaceThatUsesTheFewest has all slots in use and waiting jobs of three namespaces.
func TestAFreeSlotIsForTheNamespaceThatUsesTheFewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(3, 2)
		var order []string
		wait := func(ctx context.Context, namespace, name string) {
			go func() {
				if s.acquire(ctx, namespace) {
					order = append(order, name)
				}
			}()
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		for _, namespace := range []string{"a", "a", "b"} {
			wait(ctx, namespace, "first of "+namespace)
		}
		order = nil
		dropped, drop := context.WithCancel(ctx)
		wait(ctx, "a", "a1")
		wait(ctx, "b", "b1")
		wait(dropped, "c", "dropped")
		wait(ctx, "c", "c1")
		wait(ctx, "c", "c2")
		drop()
		synctest.Wait()
		for _, namespace := range []string{"b", "a", "c", "b", "c"} {
			s.release(namespace)
			synctest.Wait()
		}
		// b and c use none when the first slot is free, and b has waited longer. c uses none when the second is free, nor when the third is.
		if want := []string{"b1", "c1", "c2", "a1"}; !slices.Equal(order, want) {
			t.Errorf("the order is %v, not %v", order, want)
		}
		cancel()
		synctest.Wait()
		if len(s.waiting) > 0 {
			t.Errorf("%d jobs wait", len(s.waiting))
		}
	})
}

func TestSlotsOfNamespacesThatEndedAreForgotten(t *testing.T) {
	s := newSlots(2, 1)
	for _, namespace := range []string{"a", "b"} {
		if !s.acquire(t.Context(), namespace) {
			t.Fatal("a free slot is not granted")
		}
		s.release(namespace)
	}
	if len(s.used) > 0 || s.busy != 0 {
		t.Errorf("in use: %v, %d", s.used, s.busy)
	}
}
