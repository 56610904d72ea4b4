package background

import (
	"context"
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
