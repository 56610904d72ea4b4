package engine

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
)

// An object that somebody deletes whenever it is there is made anew less and less often; one that is deleted now and then
// is back at once.
func TestWhatIsDeletedAgainAndAgainIsLeftForAWhile(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1e9, 0))
	s := &stacks[*v1.TrustyAIService, struct{}]{Engine: &Engine{Options: Options{Clock: clock}}}
	key := plan.Key{GroupKind: schema.GroupKind{Kind: "Secret"}, Namespace: "ns", Name: "token"}
	state := &reconcileState{}
	// pass says whether the object was made in one pass, and counts what was told.
	pass := func() (made bool, problems int) {
		p := &reconciliation[*v1.TrustyAIService, struct{}]{
			state: state, actions: []decide.Action{{Verb: decide.Create, Key: key, KnownUID: "before"}},
		}
		s.holdRecreations(p)
		if made = p.actions[0].Verb == decide.Create; made {
			s.countRecreation(p, act.Result{Action: p.actions[0], Wrote: true})
		} else if p.nextAt.IsZero() {
			t.Fatal("nothing wakes it")
		}
		return made, len(p.problems)
	}
	for i := range freeRecreations + 1 {
		want := 0
		if i == freeRecreations {
			want = 1 // The next creation waits.
		}
		if made, problems := pass(); !made || problems != want {
			t.Fatalf("deletion %d: made %v, %d problems", i, made, problems)
		}
		clock.Step(10 * time.Millisecond)
	}
	if made, problems := pass(); made || problems != 1 {
		t.Fatalf("one too many: made %v, %d problems", made, problems)
	}
	times := 0
	for range 60 * 10 {
		clock.Step(100 * time.Millisecond)
		if made, _ := pass(); made {
			times++
		}
	}
	if times == 0 || times > 6 {
		t.Errorf("made %d times within a minute", times)
	}
	clock.Step(recreationWindow + time.Second)
	if made, problems := pass(); !made || problems > 0 || len(state.recreated) != 1 || state.recreated[key].times != 1 {
		t.Errorf("after a while: made %v, %d problems, %+v", made, problems, state.recreated)
	}
}

// An object that was recreated after a pause counts as kept only when it has existed for a while: a Ready for the moment before the
// next deletion would be wrong, and cost two status writes and two events each time.
func TestARecreatedObjectIsReportedUntilItIsKept(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1e9, 0))
	s := &stacks[*v1.TrustyAIService, struct{}]{Engine: &Engine{Options: Options{Clock: clock}}}
	key := plan.Key{GroupKind: schema.GroupKind{Kind: "Secret"}, Namespace: "ns", Name: "token"}
	state := &reconcileState{}
	pass := func(verb decide.Verb) *reconciliation[*v1.TrustyAIService, struct{}] {
		p := &reconciliation[*v1.TrustyAIService, struct{}]{
			state: state, actions: []decide.Action{{Verb: verb, Key: key, KnownUID: "before"}},
		}
		s.holdRecreations(p)
		if p.actions[0].Verb == decide.Create {
			s.countRecreation(p, act.Result{Action: p.actions[0], Wrote: true})
		}
		return p
	}
	for range freeRecreations {
		pass(decide.Create)
		if p := pass(decide.Leave); len(p.problems) > 0 {
			t.Fatalf("an object that was deleted now and then has problems: %v", p.problems)
		}
	}
	pass(decide.Create)
	for _, after := range []time.Duration{0, recreationProof - time.Millisecond} {
		clock.SetTime(time.Unix(1e9, 0).Add(after))
		if p := pass(decide.Leave); len(p.problems) != 1 || !p.nextAt.Equal(time.Unix(1e9, 0).Add(recreationProof)) {
			t.Errorf("after %s: problems %v, next pass at %s", after, p.problems, p.nextAt)
		}
	}
	clock.SetTime(time.Unix(1e9, 0).Add(recreationProof))
	if p := pass(decide.Leave); len(p.problems) > 0 {
		t.Errorf("an object that was kept has problems: %v", p.problems)
	}
}
