package invariants

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/internal/engine/shard"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

func TestBadInputTearsNothingDownAndDriftIsStillRepaired(t *testing.T) {
	b := open(t, options{})
	b.apply("b", one(configMap(b.ns, "one", "v"), configMap(b.ns, "two", "v")))
	b.ready("b")
	spec := one(configMap(b.ns, "one", "v"))
	spec.Problem = "wrong"
	b.apply("b", spec)
	got := b.condition("b", "Stalled", metav1.ConditionTrue, "BadInput")
	for _, part := range []string{"spec.problem", "wrong", "remove it"} {
		if !strings.Contains(got.Message, part) {
			t.Errorf("the message lacks %q: %s", part, got.Message)
		}
	}
	b.patch(configMapGVK, b.ns, "one", `{"data":{"k":"changed"}}`)
	b.value("one", "v")
	cluster.Consistently(t, while, func() error {
		if b.must(configMapGVK, b.ns, "two").GetDeletionTimestamp() != nil {
			return fmt.Errorf("bad input tore a child down")
		}
		return nil
	})
	spec.Problem = ""
	b.apply("b", spec)
	b.gone(configMapGVK, b.ns, "two")
	b.ready("b")
}

func TestSuspendStopsEveryWriteAndSaysSo(t *testing.T) {
	b := open(t, options{})
	b.apply("b", one(configMap(b.ns, "one", "v")))
	b.ready("b")
	b.apply("b", one(configMap(b.ns, "one", "v")), keeper.SuspendAnnotation, "true")
	cluster.Eventually(t, patience, func() error {
		for _, c := range b.bundle("b").Status.Conditions {
			if c.Type == "Suspended" && c.Status == metav1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("nothing says that it is suspended")
	})
	b.patch(configMapGVK, b.ns, "one", `{"data":{"k":"changed"}}`)
	b.apply("b", one(configMap(b.ns, "one", "new"), configMap(b.ns, "two", "v")), keeper.SuspendAnnotation, "true")
	b.quiet()
	b.nudge("b")
	b.quiet()
	b.value("one", "changed")
	b.apply("b", one(configMap(b.ns, "one", "new"), configMap(b.ns, "two", "v")), keeper.SuspendAnnotation, "false")
	b.value("one", "new")
	b.value("two", "v")
	b.ready("b")
	for _, c := range b.bundle("b").Status.Conditions {
		if c.Type == "Suspended" {
			t.Errorf("it still says that it is suspended: %+v", c)
		}
	}
}

func TestEventsTellTransitionsOnly(t *testing.T) {
	b := open(t, options{})
	b.apply("b", one(configMap(b.ns, "one", "v")))
	b.ready("b")
	for range 4 {
		b.nudge("b")
	}
	spec := one(configMap(b.ns, "one", "v"))
	spec.Problem = "wrong"
	b.apply("b", spec)
	b.condition("b", "Stalled", metav1.ConditionTrue)
	for range 4 {
		b.nudge("b")
	}
	cluster.Eventually(t, patience, func() error {
		if n, m := b.events("b", "Ready"), b.events("b", "BadInput"); n < 1 || m < 1 {
			return fmt.Errorf("%d and %d events", n, m)
		}
		return nil
	})
	cluster.Consistently(t, while, func() error {
		if n, m := b.events("b", "Ready"), b.events("b", "BadInput"); n != 1 || m != 1 {
			return fmt.Errorf("%d and %d events, want one for each transition", n, m)
		}
		return nil
	})
}

func TestShardsShareWithoutWritingTheSameObject(t *testing.T) {
	b := open(t, options{Stopped: true})
	first, second := b.ns, b.c.Namespace(t)
	b.Cleanup(func() { b.ns = second; b.abandon() })
	start := func(hold int, j *journal) *shard.Shards {
		opts := harness.Options{}
		opts.Engine.Shards = shard.NewBy(3, func(key types.NamespacedName) int {
			return map[string]int{first: 1, second: 2}[key.Namespace]
		})
		opts.Engine.Shards.Hold(hold)
		b.journal = j
		b.operator(opts)
		return opts.Engine.Shards
	}
	x, y := &journal{}, &journal{}
	of1, of2 := start(1, x), start(2, y)
	b.Cleanup(b.legal)
	const each = 50
	for _, ns := range []string{first, second} {
		b.ns = ns
		for i := range each {
			b.apply(fmt.Sprint("b", i), one(configMap(ns, fmt.Sprint("one-", i), "v")))
		}
	}
	for _, ns := range []string{first, second} {
		b.ns = ns
		for i := range each {
			b.ready(fmt.Sprint("b", i))
		}
	}
	for of, j := range map[string]*journal{first: x, second: y} {
		other := map[string]string{first: second, second: first}[of]
		inside := func(ns string) func(request) bool {
			return func(r request) bool { return r.write() && strings.Contains(r.path, "/namespaces/"+ns+"/") }
		}
		if n := len(j.since(0, inside(of))); n < 2*each {
			t.Errorf("the shard of %s wrote only %d times", of, n)
		}
		if got := j.since(0, inside(other)); len(got) > 0 {
			t.Errorf("the shard of %s wrote into %s:\n%s", of, other, lines(got))
		}
	}
	b.ns = second
	// Events follow what they tell of.
	for _, j := range []*journal{x, y} {
		b.journal = j
		b.settle()
	}
	// The shard goes to the other operator and returns. Who has it repairs what changed meanwhile and records that, and writes nothing else; who had it does
	// nothing, and believes nothing of what it knew.
	for round, hands := range []struct {
		from, to       *shard.Shards
		before, behind *journal
	}{{of2, of1, y, x}, {of1, of2, x, y}} {
		value := fmt.Sprint("v", round)
		before, behind := hands.before.mark(), hands.behind.mark()
		hands.from.GiveAway(2)
		cluster.Eventually(t, patience, func() error {
			if !hands.from.Drop(2) {
				return fmt.Errorf("the shard is still reconciled")
			}
			return nil
		})
		b.patch(configMapGVK, second, "one-0", `{"data":{"k":"changed"}}`)
		b.apply("b1", one(configMap(second, "one-1", value)))
		cluster.Consistently(t, while, func() error {
			if got := append(hands.before.since(before, request.write), hands.behind.since(behind, request.write)...); len(got) > 0 {
				return fmt.Errorf("without an operator that holds the shard, one writes:\n%s", lines(got))
			}
			return nil
		})
		hands.to.Hold(2)
		b.value("one-0", "v")
		b.value("one-1", value)
		b.ready("b1")
		b.patch(configMapGVK, second, "one-2", `{"data":{"k":"changed"}}`)
		b.value("one-2", "v")
		b.journal = hands.behind
		b.settle()
		if got := hands.before.since(before, request.write); len(got) > 0 {
			t.Errorf("who had the shard writes:\n%s", lines(got))
		}
		if got := hands.behind.since(behind, func(r request) bool {
			return r.write() && !slices.ContainsFunc([]string{"one-0", "one-1", "one-2", "b0/status", "b1/status", "b2/status"}, func(end string) bool {
				return strings.HasSuffix(r.path, "/"+end)
			}) && !strings.HasSuffix(r.path, "/events")
		}); len(got) > 0 {
			t.Errorf("what was right was written:\n%s", lines(got))
		}
	}
}

func TestWarmStandbyTakesOver(t *testing.T) {
	b := open(t, options{Stopped: true})
	elect := func(o *manager.Options) {
		o.LeaderElection, o.LeaderElectionID, o.LeaderElectionNamespace = true, "invariants-"+b.ns, cluster.OperatorNamespace
		// The lease is given back at the end, so that it need not be so short that a busy machine loses it.
		o.LeaderElectionReleaseOnCancel = true
		o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = ptr.To(time.Minute), ptr.To(45*time.Second), ptr.To(200*time.Millisecond)
	}
	opts := func() harness.Options {
		out := b.opts.Options
		out.Manager, out.Engine.Shards = elect, b.namespaces.shards()
		out.Add = func(mgr manager.Manager, _ *engine.Engine) error {
			return mgr.Add(manager.RunnableFunc(func(context.Context) error {
				out.Engine.Shards.Hold(0)
				return nil
			}))
		}
		return out
	}
	x, y := &journal{}, &journal{}
	b.journal = x
	leader := b.operator(opts())
	b.apply("b", one(configMap(b.ns, "one", "v")))
	b.ready("b")
	b.journal = y
	b.operator(opts())
	b.Cleanup(b.legal)
	writes := func(r request) bool { return r.write() && !strings.Contains(r.path, "/leases") }
	b.patch(configMapGVK, b.ns, "one", `{"data":{"k":"changed"}}`)
	b.value("one", "v")
	if got := y.since(0, writes); len(got) > 0 {
		t.Errorf("the standby wrote:\n%s", lines(got))
	}
	leader.Stop()
	mark := y.mark()
	b.patch(configMapGVK, b.ns, "one", `{"data":{"k":"changed again"}}`)
	b.value("one", "v")
	// Its watches were complete before, so that nothing is listed at the change.
	if got := y.since(mark, func(r request) bool {
		return r.method == http.MethodGet && !named(r.path) && !strings.Contains(r.query, "watch=true")
	}); len(got) > 0 {
		t.Errorf("the standby was cold:\n%s", lines(got))
	}
}
