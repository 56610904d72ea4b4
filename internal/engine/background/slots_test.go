package background

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/limit"
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

// TestSlowServersOfManyNamespacesHoldNobodyUp has four namespaces fetch from servers that never answer, as often as they may, and then one that
// fetches something. It has a slot at once, and so have seven more.
func TestSlowServersOfManyNamespacesHoldNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newJobs()
		defer p.Stop()
		running := map[string]int{}
		hangs := func(owner string) Job {
			return func(ctx context.Context) any {
				p.mu.Lock()
				running[p.Namespace(owner)]++
				p.mu.Unlock()
				<-ctx.Done()
				return nil
			}
		}
		for i := range 10 {
			for _, busy := range []string{"a", "b", "c", "d"} {
				owner := fmt.Sprintf("%s/%d", busy, i)
				p.Render(owner, "chart", controller.Once, hangs(owner))
			}
			synctest.Wait()
		}
		for i := range 8 {
			owner := fmt.Sprintf("quiet-%d/x", i)
			p.Render(owner, "chart", controller.Once, hangs(owner))
			p.Render(owner, "second", controller.Once, hangs(owner))
		}
		synctest.Wait()
		for i := range 8 {
			if ns := fmt.Sprint("quiet-", i); running[ns] != 1 {
				t.Errorf("%d jobs of %s run", running[ns], ns)
			}
		}
		if all := running["a"] + running["b"] + running["c"] + running["d"]; all != maxJobs-keptFree {
			t.Errorf("running: %v", running)
		}
	})
}

// TestQuestionsWaitForNoFetch has every slot for fetches in use, and a namespace whose fetches have all that it may have, and asks a server of it.
func TestQuestionsWaitForNoFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newJobs()
		defer p.Stop()
		for i := range 10 * maxJobs {
			p.Render(fmt.Sprintf("%d/x", i/maxOfNamespace), fmt.Sprint(i), controller.Once, func(ctx context.Context) any {
				<-ctx.Done()
				return nil
			})
		}
		synctest.Wait()
		for _, owner := range []string{"0/server", "other/server"} {
			p.Get(owner, "models", time.Second, func(context.Context) any { return 1 })
			synctest.Wait()
			if got := p.Get(owner, "models", time.Second, nil); got.Result != 1 {
				t.Errorf("the question of %s: %+v", owner, got)
			}
		}
	})
}

// TestTheTurnsOfOthersEndNoJob has a job that shares a worker with two namespaces whose turns are so long that most of its time it waits, as a
// KfDef with many applications does. It renders as long as it may, and is not begun anew.
func TestTheTurnsOfOthersEndNoJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newJobs()
		defer p.Stop()
		workers := limit.New(1, 1)
		turn := func(ctx context.Context, namespace string, lasts time.Duration) bool {
			if !workers.Acquire(ctx, namespace, 1) {
				return false
			}
			defer workers.Release(namespace, 1)
			select {
			case <-ctx.Done():
				return false
			case <-time.After(lasts):
				return true
			}
		}
		for _, busy := range []string{"busy", "busier"} {
			go func() {
				for turn(p.ctx, busy, 30*time.Second) {
				}
			}()
		}
		synctest.Wait()
		const turns, each = 9, 10 * time.Second
		var begun, turned int
		job := func(ctx context.Context) any {
			begun++
			for turned = 0; turned < turns; turned++ {
				if !turn(ctx, "ns", each) {
					return nil
				}
			}
			return "rendered"
		}
		p.Get(owner, "KfDef", controller.Once, job)
		<-p.done
		// It says that it waits, and goes on.
		if got := p.Get(owner, "KfDef", controller.Once, job); !got.Running || !got.Waits || got.Result != nil {
			t.Fatalf("after the first report: %+v, %d turns", got, turned)
		}
		<-p.done
		if got := p.Get(owner, "KfDef", controller.Once, job); got.Result != "rendered" || got.Running || got.Waits || begun != 1 {
			t.Errorf("in the end: %+v; it had %d turns in the last of %d runs", got, turned, begun)
		}
	})
}

// TestAJobThatWaitsForASlotSaysSo has one behind those that have all slots of its namespace, and then gives it one.
func TestAJobThatWaitsForASlotSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newJobs()
		defer p.Stop()
		for range maxOfNamespace {
			p.questions.Acquire(t.Context(), "ns", 1)
		}
		job := func(ctx context.Context) any {
			if deadline, _ := ctx.Deadline(); time.Until(deadline) != timeout {
				t.Errorf("it may work for %s", time.Until(deadline))
			}
			return 1
		}
		p.Get(owner, "chart", controller.Once, job)
		time.Sleep(2 * timeout)
		if got := p.Get(owner, "chart", controller.Once, job); !got.Waits || len(p.done) != 1 {
			t.Fatalf("while it waits: %+v", got)
		}
		<-p.done
		p.questions.Release("ns", 1)
		<-p.done
		if got := p.Get(owner, "chart", controller.Once, job); got.Result != 1 || got.Waits {
			t.Errorf("after its run: %+v", got)
		}
	})
}

// TestWorkOfItsOwnEndsAJob has one that goes on for longer than it may, with a wait in between.
func TestWorkOfItsOwnEndsAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newJobs()
		defer p.Stop()
		shared := limit.New(1, 1)
		shared.Acquire(t.Context(), "other", 1)
		time.AfterFunc(3*time.Minute, func() { shared.Release("other", 1) })
		began := time.Now()
		p.Get(owner, "chart", controller.Once, func(ctx context.Context) any {
			time.Sleep(time.Minute)
			shared.Acquire(ctx, "ns", 1)
			<-ctx.Done()
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Errorf("it ended with %v", ctx.Err())
			}
			return 1
		})
		<-p.done
		if took := time.Since(began); took != timeout+2*time.Minute {
			t.Errorf("it took %s, of which it waited two minutes", took)
		}
	})
}
