package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/background"
	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/reader"
	"mlkeeper.dev/internal/engine/status"
	"mlkeeper.dev/internal/engine/watch"
)

// TestCreatedOnly: only a reconciliation that wrote and deleted nothing is followed by another one that can record its entries.
func TestCreatedOnly(t *testing.T) {
	created := act.Result{Wrote: true, Action: decide.Action{Verb: decide.Create}}
	deleted := act.Result{Wrote: true, Action: decide.Action{Verb: decide.Delete}}
	unchanged := act.Result{Action: decide.Action{Verb: decide.Create}}
	for i, c := range []struct {
		results []act.Result
		want    bool
	}{
		{[]act.Result{created, unchanged}, true},
		{[]act.Result{unchanged}, false},
		{nil, false},
		{[]act.Result{created, deleted}, false},
	} {
		p := &reconciliation[*keeper.Inventory, any]{results: map[plan.Key]act.Result{}}
		for i, r := range c.results {
			p.results[plan.Key{Name: fmt.Sprint(i)}] = r
		}
		if got := p.createdOnly(); got != c.want {
			t.Errorf("%d: %v", i, got)
		}
	}
}

func TestSooner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wait := rapid.Map(rapid.IntRange(0, 3), func(i int) time.Duration { return time.Duration(i) * time.Second })
		a, b := wait.Draw(t, "a"), wait.Draw(t, "b")
		want := min(a, b)
		if want == 0 {
			want = max(a, b) // Zero means no wait at all.
		}
		if got := sooner(a, b); got != want {
			t.Fatalf("sooner(%s, %s) = %s", a, b, got)
		}
	})
}

func TestParseOwner(t *testing.T) {
	gk := schema.GroupKind{Group: "g.io", Kind: "Thing"}
	for id, want := range map[string][2]string{
		"Thing.g.io/ns/cr": {"ns", "cr"}, "Thing.g.io//cr": {"", "cr"}, "Thing.g.io/ns/a/b": {"ns", "a/b"},
	} {
		ns, name, ok := parseOwner(id, gk)
		if !ok || ns != want[0] || name != want[1] {
			t.Errorf("%q: %q %q %v", id, ns, name, ok)
		}
	}
	for _, id := range []string{"", "Thing.g.io", "Thing.g.io/ns", "Thing.h.io/ns/cr", "Thong.g.io/ns/cr", "thing.g.io/ns/cr"} {
		if _, _, ok := parseOwner(id, gk); ok {
			t.Errorf("%q is taken", id)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z0-9.-]{1,20}`)
		s := plan.Stack{
			GVK:       schema.GroupVersionKind{Group: name.Draw(t, "group"), Version: "v1", Kind: rapid.StringMatching(`[A-Z][a-z]{1,8}`).Draw(t, "kind")},
			Namespace: rapid.StringMatching(`[a-z0-9-]{0,20}`).Draw(t, "namespace"), Name: name.Draw(t, "name"),
		}
		if ns, n, ok := parseOwner(s.ID(), s.GVK.GroupKind()); !ok || ns != s.Namespace || n != s.Name {
			t.Fatalf("%q is read as %q %q %v", s.ID(), ns, n, ok)
		}
	})
}

// TestAnAnnotatedDeploymentIsNotAmiss shows that a new generation of what is as declared is no news until its controller has
// looked at it.
func TestAnAnnotatedDeploymentIsNotAmiss(t *testing.T) {
	type object struct {
		verb   decide.Verb
		health health.Result
	}
	lags := health.Result{Status: health.InProgress, Reason: health.ReasonNotObserved}
	rolls := health.Result{Status: health.InProgress, Reason: "Progressing"}
	fine := object{decide.Leave, health.Result{Status: health.Current}}
	for name, c := range map[string]struct {
		objects []object
		want    bool
	}{
		"all is well":                 {[]object{fine}, false},
		"one is annotated":            {[]object{fine, {decide.Leave, lags}}, true},
		"one is written":              {[]object{fine, {decide.Apply, lags}}, false},
		"one is annotated, one rolls": {[]object{{decide.Leave, rolls}, {decide.Leave, lags}}, false},
		"one rolls":                   {[]object{fine, {decide.Leave, rolls}}, false},
	} {
		p, seen := reconciliation[*keeper.Inventory, any]{}, controller.ObservedState{Objects: map[plan.Key]controller.State{}}
		for i, o := range c.objects {
			key := plan.Key{Name: fmt.Sprint(i)}
			p.actions = append(p.actions, decide.Action{Verb: o.verb, Key: key})
			seen.Objects[key] = controller.State{Observed: &observe.Object{Health: o.health}, Current: o.health.Status == health.Current}
		}
		if got := p.lagging(seen); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestWhatIsBeingDeletedIsNotAsDeclared: the health of an autoscaler or a budget does not count for Ready. That one is being deleted does.
func TestWhatIsBeingDeletedIsNotAsDeclared(t *testing.T) {
	s, _ := bareStacks()
	key := plan.Key{GroupKind: schema.GroupKind{Group: "policy", Kind: "PodDisruptionBudget"}, Namespace: "a", Name: "x"}
	for name, c := range map[string]struct {
		action decide.Action
		ready  bool
	}{
		"its health is not good": {decide.Action{Verb: decide.Leave}, true},
		"it is being deleted":    {decide.Action{Verb: decide.Wait, Reason: decide.ReasonTerminating, Detail: "it to be gone"}, false},
	} {
		p := passOf("a", newState("uid"), "")
		c.action.Key, c.action.Object.Desired = key, &unstructured.Unstructured{}
		p.actions, p.ignoreHealth = []decide.Action{c.action}, map[plan.Key]bool{key: true}
		if seen := s.summarize(p); seen.Ready != c.ready || !c.ready && seen.Waiting != "waiting for it to be gone" {
			t.Errorf("%s: Ready %t, waiting %q", name, seen.Ready, seen.Waiting)
		}
	}
}

func TestWhatIsNotKnownYetIsNoVerdict(t *testing.T) {
	fetching, missing := plan.Problem{Class: plan.Waiting, Brief: true}, plan.Problem{Class: plan.Waiting}
	opening := []decide.Action{{Verb: decide.Wait, Reason: decide.ReasonNotSynced}}
	cases := map[string]struct {
		pass reconciliation[*keeper.Inventory, any]
		want bool
	}{
		"a watch is being opened":      {reconciliation[*keeper.Inventory, any]{actions: opening}, true},
		"an archive is fetched":        {reconciliation[*keeper.Inventory, any]{problems: []plan.Problem{fetching}}, true},
		"a Secret is missing too":      {reconciliation[*keeper.Inventory, any]{problems: []plan.Problem{fetching, missing}, actions: opening}, false},
		"a write has failed":           {reconciliation[*keeper.Inventory, any]{actions: opening, transient: errStaleCache}, false},
		"a controller has yet to look": {reconciliation[*keeper.Inventory, any]{lags: true}, true},
		"a Deployment is not there":    {reconciliation[*keeper.Inventory, any]{actions: []decide.Action{{Verb: decide.Create}}}, false},
	}
	for name, c := range cases {
		if got := c.pass.warmingUp(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// readingStacks are bareStacks that read objects of others.
func readingStacks() (*stacks[*v1.TrustyAIService, struct{}], *testclock.FakeClock) {
	s, clock := bareStacks()
	s.jobs = background.New(background.Options[watch.Referrer]{
		Clock: clock, Namespace: func(watch.Referrer) string { return "" }, Rendering: func() {}, Done: func(watch.Referrer) {}, Log: logr.Discard(),
	})
	s.readers = &reader.Readers{Informers: s.informers, Catalog: s.catalog, Jobs: s.jobs, Clock: clock}
	return s, clock
}

// TestWhatFailsForLongIsReported: a status must not say Ready for ever of what cannot be applied, nor nothing of what is new, while each
// attempt ends before its report. What passes within seconds is not reported.
func TestWhatFailsForLongIsReported(t *testing.T) {
	s, clock := readingStacks()
	denied := errors.New("write the Inventories: denied")
	attempt := func(deleted bool) *metav1.Condition {
		p := passOf("a", s.stateOf(client.ObjectKey{Namespace: "a", Name: "x"}), "")
		p.cr, p.reader = p.before.DeepCopy(), s.readers.New(reader.Request{})
		if deleted {
			p.cr.DeletionTimestamp = &metav1.Time{Time: clock.Now()}
		}
		if _, err := s.fail(t.Context(), p, denied); !errors.Is(err, denied) {
			t.Fatalf("the error is %v", err)
		}
		return meta.FindStatusCondition(p.cr.Status.Conditions, status.ConditionReady)
	}
	req := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "a", Name: "x"}}
	began := clock.Now()
	for range reportedAfter {
		if ready := attempt(false); ready.Status != metav1.ConditionTrue {
			t.Fatalf("after %s: %+v", clock.Since(began), ready)
		}
		clock.Step(s.queue.backoff.When(req))
	}
	if ready := attempt(false); ready.Status != metav1.ConditionFalse || ready.Reason != status.ReasonRetrying || !strings.Contains(ready.Message, denied.Error()) {
		t.Errorf("after %s: %+v", clock.Since(began), ready)
	}
	if ready := attempt(true); ready.Status != metav1.ConditionTrue {
		t.Errorf("of what is being deleted: %+v", ready)
	}
	if took := clock.Since(began); took < 10*time.Second || took > 30*time.Second {
		t.Errorf("it is reported after %s", took)
	}
}

// again is a controller that has something to do once its status is written.
type again struct{ projecting }

func (again) Project(*v1.TrustyAIService, struct{}, controller.ObservedState) controller.Verdict {
	return controller.Verdict{Again: true}
}

// TestWhatFollowsAStatusWaitsForIt: while somebody else changes the status each time, what would follow its write is not tried without a pause.
func TestWhatFollowsAStatusWaitsForIt(t *testing.T) {
	s, clock := bareStacks()
	s.jobs = background.New(background.Options[watch.Referrer]{
		Clock: clock, Namespace: func(watch.Referrer) string { return "" }, Rendering: func() {}, Done: func(watch.Referrer) {}, Log: logr.Discard(),
	})
	s.readers, s.sys = &reader.Readers{Informers: s.informers, Catalog: s.catalog, Jobs: s.jobs, Clock: clock}, again{}
	state := newState("uid")
	report := func() (*v1.TrustyAIService, time.Duration) {
		t.Helper()
		p := passOf("a", state, "")
		p.cr, p.reader = p.before.DeepCopy(), s.readers.New(reader.Request{})
		p.problems = []plan.Problem{{Class: plan.Waiting, Reason: "Waits", Message: "it waits"}}
		result, err := s.report(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		return p.cr, result.RequeueAfter
	}
	cr, after := report()
	if after != time.Millisecond {
		t.Fatalf("it is tried after %s", after)
	}
	var err error
	if state.written, err = status.Sum(cr); err != nil {
		t.Fatal(err)
	}
	for range backoff.TakenBack.Free + 1 {
		state.rewrites.Again(backoff.TakenBack, clock.Now())
	}
	if _, after := report(); after < time.Second {
		t.Errorf("while the status is not written it is tried after %s", after)
	}
}
