package engine

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/rollout"
	"mlkeeper.dev/internal/engine/status"
)

// rollingStacks are stacks of which custom resources roll.
func rollingStacks() (*stacks[*v1.TrustyAIService, struct{}], *testclock.FakeClock, *events.FakeRecorder) {
	clock, recorder := testclock.NewFakeClock(time.Unix(1e9, 0)), events.NewFakeRecorder(10)
	s := &stacks[*v1.TrustyAIService, struct{}]{
		Engine: &Engine{Options: Options{Clock: clock}, recorder: recorder},
		def: controller.Definition[*v1.TrustyAIService]{
			GVK: v1.GroupVersion.WithKind("TrustyAIService"),
			Common: func(cr *v1.TrustyAIService) controller.Common {
				return controller.Common{Conditions: &cr.Status.Conditions}
			},
		},
	}
	return s, clock, recorder
}

// passOf is a pass of a custom resource in a namespace.
func passOf(namespace string, l *reconcileState, inputs string) *reconciliation[*v1.TrustyAIService, struct{}] {
	cr := &v1.TrustyAIService{}
	cr.Namespace, cr.Name, cr.Generation = namespace, "x", 1
	cr.Status.Conditions = []metav1.Condition{{Type: status.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: 1}}
	return &reconciliation[*v1.TrustyAIService, struct{}]{
		key: client.ObjectKeyFromObject(cr), before: cr, cr: cr, state: l, plan: plan.Plan{Inputs: inputs},
	}
}

func TestANamespaceThatIsNotReadyByTheDeadlineLosesItsTurn(t *testing.T) {
	s, clock, recorder := rollingStacks()
	at := func(ns string) rollout.Key { return s.rolloutKey(client.ObjectKey{Namespace: ns, Name: "x"}) }
	if !s.rollouts.Acquire(at("a"), clock.Now()).OK {
		t.Fatal("nobody rolls, and the first is held back")
	}
	clock.Step(rollout.Deadline / 2)
	// That more of the namespace begin to roll does not put the deadline off.
	if !s.rollouts.Acquire(rollout.Key{Kind: schema.GroupKind{Kind: "Other"}, ObjectKey: client.ObjectKey{Namespace: "a"}}, clock.Now()).OK {
		t.Fatal("the namespace that rolls is held back")
	}
	held := s.rollouts.Acquire(at("b"), clock.Now())
	if held.OK || held.Holder != "a" || !held.Until.Equal(clock.Now().Add(rollout.Deadline/2)) {
		t.Fatalf("%+v", held)
	}
	clock.Step(rollout.Deadline / 2)
	if next := s.rollouts.Acquire(at("b"), clock.Now()); !next.OK || len(next.Exceeded) != 2 {
		t.Fatalf("at the deadline: %+v", next)
	}
	if held := s.rollouts.Acquire(at("c"), clock.Now()); held.OK || held.Holder != "b" || !held.Until.Equal(clock.Now().Add(rollout.Deadline)) {
		t.Fatalf("the one after: %+v", held)
	}
	for range 2 {
		s.settleRollout(passOf("a", &reconcileState{}, ""), false)
	}
	if len(recorder.Events) != 1 || !strings.Contains(<-recorder.Events, eventRolloutExceeded) {
		t.Errorf("%d events tell of it, want 1", len(recorder.Events))
	}
	// What becomes of it later is nobody's turn.
	if woken := s.rollouts.Release(at("a")); woken != nil {
		t.Errorf("woke %v", woken)
	}
	if woken := s.rollouts.Release(at("b")); len(woken) != 1 || woken[0] != at("c") {
		t.Errorf("woke %v", woken)
	}
}

func TestATurnIsGivenBackByWhatStandsStill(t *testing.T) {
	type edit func(*reconciliation[*v1.TrustyAIService, struct{}]) (ready bool)
	for name, one := range map[string]struct {
		edit edit
		back bool
	}{
		"it rolls":    {func(*reconciliation[*v1.TrustyAIService, struct{}]) bool { return false }, false},
		"it is Ready": {func(*reconciliation[*v1.TrustyAIService, struct{}]) bool { return true }, true},
		"its spec is invalid": {func(p *reconciliation[*v1.TrustyAIService, struct{}]) bool {
			p.problems = []plan.Problem{{Class: plan.Terminal}}
			return false
		}, true},
		"what it refers to is gone": {func(p *reconciliation[*v1.TrustyAIService, struct{}]) bool {
			p.gatherFailed, p.problems = true, []plan.Problem{{Class: plan.Waiting}}
			return false
		}, true},
		"what it refers to is being fetched": {func(p *reconciliation[*v1.TrustyAIService, struct{}]) bool {
			p.gatherFailed, p.problems = true, []plan.Problem{{Class: plan.Waiting, Brief: true}}
			return false
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, clock, _ := rollingStacks()
			p := passOf("a", &reconcileState{}, "")
			s.rollouts.Acquire(s.rolloutKey(p.key), clock.Now())
			s.settleRollout(p, one.edit(p))
			if got := s.rollouts.Acquire(s.rolloutKey(client.ObjectKey{Namespace: "b"}), clock.Now()).OK; got != one.back {
				t.Errorf("the next namespace rolls: %t", got)
			}
		})
	}
}

func TestWhatANamespaceChangesItselfIsNoRollout(t *testing.T) {
	s, clock, _ := rollingStacks()
	l := &reconcileState{}
	if s.ownChange(passOf("a", l, "credentials 1")) {
		t.Error("what is found at the start is taken for a change")
	}
	if s.ownChange(passOf("a", l, "")) {
		t.Error("inputs that are not known are taken for a change")
	}
	changed := passOf("a", l, "credentials 2")
	s.rollouts.Acquire(s.rolloutKey(changed.key), clock.Now())
	for range 2 {
		s.holdRollout(changed)
	}
	if !s.rollouts.Acquire(s.rolloutKey(client.ObjectKey{Namespace: "b"}), clock.Now()).OK {
		t.Error("a namespace keeps its turn for a change of its own")
	}
	s.settleRollout(changed, false)
	if !s.ownChange(changed) {
		t.Error("the change is the operator's before it has come to an end")
	}
	s.settleRollout(changed, true)
	if s.ownChange(changed) {
		t.Error("the change is of the namespace's own for ever")
	}
	changed.before.Generation++
	if !s.ownChange(changed) {
		t.Error("another spec is taken for a change of the operator")
	}
}

// TestAChangeWhileNoManagerRanIsNoRollout: where a controller records what its pods follow from, a new manager knows what a user has
// changed meanwhile.
func TestAChangeWhileNoManagerRanIsNoRollout(t *testing.T) {
	s, _, _ := rollingStacks()
	for applied, own := range map[string]bool{"": false, "credentials 1": true, "credentials 2": false} {
		p := passOf("a", &reconcileState{}, "credentials 2")
		p.plan.AppliedInputs = applied
		for range 2 {
			if got := s.ownChange(p); got != own {
				t.Errorf("applied is %q: a change of the namespace's own: %t", applied, got)
			}
		}
	}
}

// TestAChangeThatAStartInterruptedIsNoRollout: the manager before this one saw the new spec, and ended before it had carried it out.
func TestAChangeThatAStartInterruptedIsNoRollout(t *testing.T) {
	s, clock, _ := rollingStacks()
	s.rollouts.Acquire(s.rolloutKey(client.ObjectKey{Namespace: "b"}), clock.Now())
	p := passOf("a", &reconcileState{}, "credentials 1")
	ready := &p.before.Status.Conditions[0]
	p.before.Generation, ready.Status, ready.ObservedGeneration = 2, metav1.ConditionFalse, 2
	for range 2 {
		if !s.ownChange(p) {
			t.Fatal("the change of the custom resource's own waits for the rollout of another namespace")
		}
	}
	s.settleRollout(p, true)
	if s.ownChange(p) {
		t.Error("the change has come to an end, and is one still")
	}
}
