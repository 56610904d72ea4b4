package engine

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
)

// refusing is a cluster that refuses one object, and what it is asked for.
type refusing struct {
	*stacks[*v1.TrustyAIService, struct{}]
	clock    *testclock.FakeClock
	state    *reconcileState
	cr       *v1.TrustyAIService
	problem  plan.Problem
	attempts int
}

func newRefusing(problem plan.Problem) *refusing {
	clock := testclock.NewFakeClock(time.Unix(1e9, 0))
	return &refusing{
		stacks: &stacks[*v1.TrustyAIService, struct{}]{Engine: &Engine{Options: Options{Clock: clock}}},
		clock:  clock, state: &reconcileState{}, cr: &v1.TrustyAIService{}, problem: problem,
	}
}

// pass reconciles an object with a digest, and says whether it was written.
func (r *refusing) pass(digest string) bool {
	key := plan.Key{GroupKind: schema.GroupKind{Kind: "Secret"}, Namespace: "ns", Name: "x"}
	p := &reconciliation[*v1.TrustyAIService, struct{}]{
		cr: r.cr, state: r.state, actions: []decide.Action{{Verb: decide.Create, Key: key, Object: plan.Stamped{Key: key, Digest: digest}}},
	}
	r.holdRejected(p)
	if !p.actions[0].Writes() {
		return false
	}
	r.attempts++
	r.recordRejection(p, act.Result{Action: p.actions[0], Problem: &r.problem})
	return true
}

// Where the cluster refuses an object, content that is generated anew in every pass is no reason to ask at once: the pauses
// grow, however many events come.
func TestWhatIsRefusedIsTriedWithGrowingPausesWhateverItHolds(t *testing.T) {
	r := newRefusing(plan.Problem{Class: plan.Blocked, Reason: act.ReasonQuota})
	for i := range 30 * 100 {
		r.pass(fmt.Sprint(i))
		r.clock.Step(10 * time.Millisecond)
	}
	if r.attempts < 4 || r.attempts > 6 {
		t.Errorf("%d attempts within 30 s", r.attempts)
	}
	r.cr.Generation++
	if !r.pass("another spec") || r.pass("another spec") {
		t.Error("what the user changed is not tried once and at once")
	}
	r.clock.Step(2 * time.Second)
	if !r.pass("again") {
		t.Error("the pauses do not begin anew when the user changed something")
	}
	r.problem.Reason = act.ReasonDenied
	r.clock.Step(5 * time.Second)
	r.pass("refused for another reason")
	r.clock.Step(2 * time.Second)
	if !r.pass("again") {
		t.Error("the pauses do not begin anew with another reason")
	}
}

// What only another input mends is tried at once when it is another.
func TestWhatIsInvalidIsTriedWhenItIsAnother(t *testing.T) {
	r := newRefusing(plan.Problem{Class: plan.Terminal, Reason: act.ReasonInvalid})
	if !r.pass("a") || r.pass("a") || !r.pass("b") || r.pass("b") {
		t.Errorf("%d attempts", r.attempts)
	}
}
