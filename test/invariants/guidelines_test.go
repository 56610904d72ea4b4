package invariants

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
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
	second := b.namespace()
	b.c.Kubectl(t, "label", "--overwrite", "namespace", second, shardLabel+"="+second)
	shard := func(of string, j *journal) *harness.Operator {
		opts := harness.Options{}
		opts.Engine.ShardSelector = labels.SelectorFromSet(labels.Set{shardLabel: of})
		b.journal = j
		return b.operator(opts)
	}
	x, y := &journal{}, &journal{}
	shard(b.ns, x)
	shard(second, y)
	b.Cleanup(b.legal)
	const each = 50
	first := b.ns
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
	// A namespace that changes hands is looked after by the other shard, which need not write what is right.
	markX, markY := x.mark(), y.mark()
	b.c.Kubectl(t, "label", "--overwrite", "namespace", second, shardLabel+"="+first)
	cluster.Eventually(t, patience, func() error {
		b.patch(configMapGVK, second, "one-0", `{"data":{"k":"changed"}}`)
		if len(x.writes(markX, http.MethodPatch, second+"/configmaps/one-0")) == 0 {
			return fmt.Errorf("the new shard does not repair")
		}
		return nil
	})
	b.value("one-0", "v")
	markY = max(markY, y.mark())
	b.patch(configMapGVK, second, "one-1", `{"data":{"k":"changed"}}`)
	b.value("one-1", "v")
	if got := y.since(markY, request.write); len(got) > 0 {
		t.Errorf("the old shard still writes:\n%s", lines(got))
	}
	if got := x.writes(markX, "", second+"/configmaps/one-2"); len(got) > 0 {
		t.Errorf("what was right was written:\n%s", lines(got))
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
	opts := b.opts.Options
	opts.Manager = elect
	x, y := &journal{}, &journal{}
	b.journal = x
	leader := b.operator(opts)
	b.apply("b", one(configMap(b.ns, "one", "v")))
	b.ready("b")
	b.journal = y
	b.operator(opts)
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
