package retry

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
)

var secret = plan.Key{GroupKind: schema.GroupKind{Kind: "Secret"}, Namespace: "ns", Name: "x"}

// rejecting is a cluster that rejects one object.
type rejecting struct {
	State
	now      time.Time
	request  string
	schema   int64
	problem  plan.Problem
	attempts int
}

func newRejecting(problem plan.Problem) *rejecting {
	return &rejecting{now: time.Unix(1e9, 0), request: "1", problem: problem}
}

func (r *rejecting) asked() Request { return Request{User: r.request, Schema: r.schema} }

// reconcile reconciles an object with a digest, and says whether it was written.
func (r *rejecting) reconcile(digest string) bool {
	actions := []decide.Action{{Verb: decide.Create, Key: secret, Object: plan.Stamped{Key: secret, Digest: digest}}}
	problems, _ := r.Hold(actions, func(plan.Key) Request { return r.asked() }, r.now)
	if !actions[0].Writes() {
		return len(problems) != 1 // A write that waits without its problem counts as wrong.
	}
	r.attempts++
	r.Record(act.Result{Action: actions[0], Problem: &r.problem}, r.asked(), r.now)
	return true
}

// Where the cluster rejects an object, content that is generated anew in every reconcile is no reason to ask at once: the pauses grow,
// however many events come.
func TestRejectedWritesAreTriedWithGrowingPausesWhateverTheirContent(t *testing.T) {
	r := newRejecting(plan.Problem{Class: plan.Blocked, Reason: act.ReasonQuota})
	for i := range 30 * 100 {
		r.reconcile(fmt.Sprint(i))
		r.now = r.now.Add(10 * time.Millisecond)
	}
	if r.attempts < 4 || r.attempts > 6 {
		t.Errorf("%d attempts within 30 s", r.attempts)
	}
	r.request = "2"
	if !r.reconcile("another spec") || r.reconcile("another spec") {
		t.Error("what the user changed is not tried once and at once")
	}
	r.now = r.now.Add(2 * time.Second)
	if !r.reconcile("again") {
		t.Error("the pauses do not begin anew when the user changed something")
	}
	r.problem.Reason = act.ReasonDenied
	r.now = r.now.Add(5 * time.Second)
	r.reconcile("rejected for another reason")
	r.now = r.now.Add(2 * time.Second)
	if !r.reconcile("again") {
		t.Error("the pauses do not begin anew with another reason")
	}
}

// What only another input mends is tried at once when it is another, and by itself never.
func TestInvalidObjectsAreTriedWhenTheyChange(t *testing.T) {
	r := newRejecting(plan.Problem{Class: plan.Terminal, Reason: act.ReasonInvalid})
	if !r.reconcile("a") || r.reconcile("a") || !r.reconcile("b") || r.reconcile("b") {
		t.Errorf("%d attempts", r.attempts)
	}
	if due := r.Due(r.now); !due.IsZero() {
		t.Errorf("it is tried again at %s", due)
	}
}

// TestWhatNobodyTriesIsNotPolled: while a problem keeps the plan from being made, no write is decided about.
func TestWhatNobodyTriesIsNotPolled(t *testing.T) {
	r := newRejecting(plan.Problem{Class: plan.Blocked, Reason: act.ReasonDenied})
	r.reconcile("a")
	if due := r.Due(r.now); !due.After(r.now) {
		t.Fatalf("it is due at %s", due)
	}
	if r.now = r.now.Add(time.Minute); !r.Due(r.now).IsZero() {
		t.Errorf("at %s it is due at %s", r.now, r.Due(r.now))
	}
}

// A new schema of the kind has the write tried at once, and again after a pause, since the API server may serve the schema later.
func TestInvalidObjectsAreTriedWhenTheSchemaChanges(t *testing.T) {
	r := newRejecting(plan.Problem{Class: plan.Terminal, Reason: act.ReasonInvalid})
	r.schema = 1
	if !r.reconcile("a") || r.reconcile("a") {
		t.Error("it is not tried once")
	}
	r.schema = 2
	if !r.reconcile("a") || r.reconcile("a") {
		t.Error("it is not tried once with the new schema")
	}
	due := r.Due(r.now)
	if due.IsZero() || due.After(r.now.Add(5*time.Second)) {
		t.Fatalf("it is tried again at %s", due)
	}
	r.now = due
	if !r.reconcile("a") {
		t.Error("it is not tried when it is due")
	}
}

// A write that is due, and that something else holds, such as the slot of rollouts, is no reason to reconcile at once, again and again. When
// it is rejected again, the next attempt is due later.
func TestWhatIsDueAndHeldIsNotPolled(t *testing.T) {
	r := newRejecting(plan.Problem{Class: plan.Blocked, Reason: act.ReasonDenied})
	r.reconcile("a")
	r.now = r.Due(r.now)
	actions := []decide.Action{{Verb: decide.Create, Key: secret, Object: plan.Stamped{Key: secret, Digest: "a"}}}
	if r.Hold(actions, func(plan.Key) Request { return r.asked() }, r.now); !actions[0].Writes() {
		t.Fatal("it is not tried when it is due")
	}
	if due := r.Due(r.now); !due.IsZero() {
		t.Errorf("at %s it is due at %s, though nothing tried it", r.now, due)
	}
	if !r.reconcile("a") || !r.Due(r.now).After(r.now) {
		t.Errorf("after the next attempt at %s it is due at %s", r.now, r.Due(r.now))
	}
}

// A reconcile may last longer than a pause that begins or ends within it, as where the API server is slow: the next attempt is due all the same.
func TestAnAttemptThatBecomesDueDuringAReconcileIsMade(t *testing.T) {
	r := newRejecting(plan.Problem{Class: plan.Blocked, Reason: act.ReasonConflict})
	began := r.now
	r.reconcile("a")
	r.now = r.now.Add(2 * time.Second)
	due := r.Due(began)
	if due.IsZero() || due.After(r.now) {
		t.Fatalf("at %s, the end of the reconcile that was rejected, it is due at %s", r.now, due)
	}
	r.reconcile("a") // The next pause begins.
	began = r.Due(r.now).Add(-time.Millisecond)
	if r.now = began; r.reconcile("a") {
		t.Fatal("it is tried before it is due")
	}
	r.now = r.now.Add(time.Second)
	if due := r.Due(began); due.IsZero() || due.After(r.now) {
		t.Errorf("at %s, the end of a reconcile that it waited in, it is due at %s", r.now, due)
	}
}

// A name that a watch showed to be taken, and shows to be free, is tried at once; the pauses go on growing where it is taken again. What no watch
// showed is tried after its pause.
func TestANameThatIsFreeAgainIsTriedAtOnce(t *testing.T) {
	r := newRejecting(plan.Problem{Class: plan.Blocked, Reason: act.ReasonConflict})
	r.reconcile("a")
	r.See(secret, false)
	if r.reconcile("a") {
		t.Error("it is tried at once, though nothing was seen to go")
	}
	r.See(secret, true)
	if r.reconcile("a") {
		t.Error("it is tried while the name is taken")
	}
	due := r.Due(r.now)
	r.See(secret, false)
	if !r.reconcile("a") || r.reconcile("a") {
		t.Error("it is not tried once when the name is free")
	}
	r.See(secret, false)
	if r.reconcile("a") || !r.Due(r.now).Equal(due) {
		t.Errorf("after another attempt it is due at %s, and not at %s", r.Due(r.now), due)
	}
}

// Only names that another owner has are watched, and few of them, since each costs a read.
func TestFewNamesAreWatched(t *testing.T) {
	var s State
	for i := range 2 * maxTaken {
		for _, reason := range []string{act.ReasonConflict, act.ReasonQuota} {
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{
				"namespace": "ns", "name": fmt.Sprint(reason, i),
			}}}
			s.Record(act.Result{
				Action:  decide.Action{Verb: decide.Create, Key: plan.KeyOf(o), Object: plan.Stamped{Key: plan.KeyOf(o), Object: plan.Object{Desired: o}}},
				Problem: &plan.Problem{Class: plan.Blocked, Reason: reason},
			}, Request{}, time.Unix(1e9, 0))
		}
	}
	taken := s.Taken()
	if len(taken) != maxTaken {
		t.Errorf("%d names are watched", len(taken))
	}
	for _, one := range taken {
		if !strings.HasPrefix(one.Key.Name, act.ReasonConflict) || one.GVK != (schema.GroupVersionKind{Version: "v1", Kind: "Secret"}) {
			t.Errorf("%s is watched as %s", one.Key, one.GVK)
		}
	}
}

// Both a rejected write and what else is blocked are due; an accepted write and an end of the block leave nothing.
func TestDueIsTheFirstAttempt(t *testing.T) {
	r := newRejecting(plan.Problem{Class: plan.Blocked, Reason: act.ReasonQuota})
	if !r.Due(r.now).IsZero() {
		t.Error("something is due that never failed")
	}
	r.SetBlocked(true, "1", r.now)
	blocked := r.Due(r.now)
	r.now = r.now.Add(-time.Minute)
	r.reconcile("a")
	if due := r.Due(r.now); due.IsZero() || !due.Before(blocked) {
		t.Errorf("due at %s, not before %s", due, blocked)
	}
	r.Record(act.Result{Action: decide.Action{Verb: decide.Create, Key: secret}, Wrote: true}, Request{User: "1"}, r.now)
	if due := r.Due(r.now); !due.Equal(blocked) {
		t.Errorf("after the write was accepted, due at %s", due)
	}
	if r.SetBlocked(false, "1", r.now); !r.Due(r.now).IsZero() {
		t.Errorf("nothing is left, and yet due at %s", r.Due(r.now))
	}
}
