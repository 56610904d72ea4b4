package retry

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
)

// unchanged is the request of a user who asks for nothing.
func unchanged(plan.Key) Request { return Request{} }

// An object that another client deletes whenever it exists is recreated less and less often; one that is deleted now and then is back
// at once.
func TestDeletedAgainAndAgainIsRecreatedWithBackoff(t *testing.T) {
	now, s := time.Unix(1e9, 0), State{}
	// reconcile says whether the object was created in one reconcile, and counts the problems.
	reconcile := func() (created bool, problems int) {
		actions := []decide.Action{{Verb: decide.Create, Reason: decide.ReasonMissing, Key: secret, KnownUID: "before"}}
		held, due := s.Hold(actions, unchanged, now)
		if created = actions[0].Verb == decide.Create; created {
			recorded, _ := s.Record(act.Result{Action: actions[0], Wrote: true}, Request{}, now)
			held = append(held, recorded...)
		} else if !due.After(now) {
			t.Fatal("nothing enqueues it")
		}
		return created, len(held)
	}
	for i := range backoff.TakenBack.Free + 1 {
		want := 0
		if i == backoff.TakenBack.Free {
			want = 1 // The next creation waits.
		}
		if created, problems := reconcile(); !created || problems != want {
			t.Fatalf("deletion %d: created %v, %d problems", i, created, problems)
		}
		now = now.Add(10 * time.Millisecond)
	}
	if created, problems := reconcile(); created || problems != 1 {
		t.Fatalf("one too many: created %v, %d problems", created, problems)
	}
	times := 0
	for range 60 * 10 {
		now = now.Add(100 * time.Millisecond)
		if created, _ := reconcile(); created {
			times++
		}
	}
	if times == 0 || times > 6 {
		t.Errorf("created %d times within a minute", times)
	}
	now = now.Add(backoff.TakenBack.Window + time.Second)
	if created, problems := reconcile(); !created || problems > 0 || len(s.repetitions) != 1 {
		t.Errorf("after a while: created %v, %d problems, %+v", created, problems, s.repetitions)
	}
}

// TestAHookOfEachRevisionIsDeletedByNobody: a hook that is made once more for another revision was not deleted by another client.
func TestAHookOfEachRevisionIsDeletedByNobody(t *testing.T) {
	now, s := time.Unix(1e9, 0), State{}
	for i := range 3 * backoff.TakenBack.Free {
		actions := []decide.Action{{Verb: decide.Create, Reason: decide.ReasonChanged, Key: secret, KnownUID: "before"}}
		held, _ := s.Hold(actions, unchanged, now)
		recorded, _ := s.Record(act.Result{Action: actions[0], Wrote: true}, Request{}, now)
		if problems := slices.Concat(held, recorded); len(problems) > 0 || actions[0].Verb != decide.Create {
			t.Fatalf("revision %d: %s, %v", i, actions[0].Verb, problems)
		}
		now = now.Add(time.Second)
	}
}

// TestInvariant18PodsThatChangeBackAndForthAreReplacedLessAndLessOften: facts that another client changes back and forth are another content each
// time, but none that was not written before. What is new is written at once, and so is each of the contents for what the user asks for anew.
// An object without pods, such as a route, follows facts at their rate.
func TestInvariant18PodsThatChangeBackAndForthAreReplacedLessAndLessOften(t *testing.T) {
	now, s, writes := time.Unix(1e9, 0), State{}, 0
	of := plan.Key{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Namespace: "ns", Name: "x"}
	reconcile := func(user, content string) bool {
		request := Request{User: user}
		actions := []decide.Action{{
			Verb: decide.Apply, Reason: decide.ReasonChanged, Key: of, KnownUID: "u", UID: "u", Object: plan.Stamped{Digest: content},
		}}
		problems, due := s.Hold(actions, func(plan.Key) Request { return request }, now)
		if actions[0].Verb == decide.Apply {
			s.Record(act.Result{Action: actions[0], Wrote: true}, request, now)
			return true
		}
		if len(problems) != 1 || problems[0].Reason != ReasonRepairBackOff || !due.After(now) {
			t.Fatalf("it waits until %s for %+v", due, problems)
		}
		return false
	}
	for begin := now; now.Before(begin.Add(time.Hour)); now = now.Add(100 * time.Millisecond) {
		if reconcile("1", []string{"a", "b", "c"}[writes%3]) {
			writes++
		}
	}
	if most := 3 + backoff.TakenBack.Free + 10 + 12; writes <= 3+backoff.TakenBack.Free || writes > most {
		t.Errorf("it was written %d times within an hour, not %d at most", writes, most)
	}
	if reconcile("1", "a") {
		t.Error("a content of before does not wait")
	}
	if !reconcile("1", "another") {
		t.Error("what is new waits")
	}
	for _, content := range []string{"a", "b"} {
		if !reconcile("2", content) {
			t.Errorf("%s waits, which the user has asked for", content)
		}
	}
	of = plan.Key{GroupKind: schema.GroupKind{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute"}, Namespace: "ns", Name: "x"}
	for i := range 100 {
		if !reconcile("2", []string{"with the canary", "without"}[i%2]) {
			t.Fatal("a route waits")
		}
	}
	if _, remembered := s.repetitions[of]; remembered {
		t.Error("what does not count is remembered")
	}
}

// TestARecreatedObjectIsReportedUntilItIsKept: an object that was recreated after a pause counts as kept only when it has existed for a
// while. A Ready for the moment before the next deletion would be wrong, and cost two status writes and two events each time.
func TestARecreatedObjectIsReportedUntilItIsKept(t *testing.T) {
	start := time.Unix(1e9, 0)
	s := State{}
	reconcile := func(verb decide.Verb, now time.Time) (problems int, due time.Time) {
		actions := []decide.Action{{Verb: verb, Reason: decide.ReasonMissing, Key: secret, KnownUID: "before"}}
		held, due := s.Hold(actions, unchanged, now)
		if actions[0].Verb == decide.Create {
			s.Record(act.Result{Action: actions[0], Wrote: true}, Request{}, now)
		}
		return len(held), due
	}
	for range backoff.TakenBack.Free {
		reconcile(decide.Create, start)
		if problems, _ := reconcile(decide.Leave, start); problems > 0 {
			t.Fatal("an object that was deleted now and then has problems")
		}
	}
	reconcile(decide.Create, start)
	proven := start.Add(repetitionProof)
	for _, after := range []time.Duration{0, repetitionProof - time.Millisecond} {
		if problems, due := reconcile(decide.Leave, start.Add(after)); problems != 1 || !due.Equal(proven) {
			t.Errorf("after %s: %d problems, due at %s", after, problems, due)
		}
	}
	if problems, _ := reconcile(decide.Leave, proven); problems > 0 {
		t.Error("an object that was kept has problems")
	}
}

// generated is an action for an object whose content is another one in each pass.
func generated(a decide.Action) decide.Action {
	a.Object.Generated = true
	return a
}

// TestInvariant18WhatIsTakenBackIsWrittenLessAndLessOften: whatever another client does, an object that is declared as before is not written
// without pauses. Ceding ends most of it, but not for a field that is removed, for MLKeeper's own marks, or for clients of many names.
func TestInvariant18WhatIsTakenBackIsWrittenLessAndLessOften(t *testing.T) {
	for name, c := range map[string]struct {
		decided decide.Action
		// done is the verb of the write, which may be another: what has lost its labels is found under its name.
		done   decide.Verb
		reason string
	}{
		"changed":                    {decide.Action{Verb: decide.Apply, Reason: decide.ReasonDrift}, decide.Apply, ReasonRepairBackOff},
		"deleted":                    {decide.Action{Verb: decide.Create, Reason: decide.ReasonMissing, KnownUID: "u"}, decide.Create, ReasonRecreationBackOff},
		"without its labels":         {decide.Action{Verb: decide.Create, Reason: decide.ReasonMissing, KnownUID: "u"}, decide.Apply, ReasonRepairBackOff},
		"made again once it is gone": {decide.Action{Verb: decide.Delete, Reason: decide.ReasonPruned}, decide.Delete, ReasonRepairBackOff},
		"made anew with another field that cannot be changed": {decide.Action{Verb: decide.Apply, Reason: decide.ReasonRecreated}, decide.Delete, ReasonRepairBackOff},
		"replaced":              {decide.Action{Verb: decide.Apply, Reason: decide.ReasonUnverified, KnownUID: "u", UID: "v"}, decide.Apply, ReasonRepairBackOff},
		"generated and deleted": {generated(decide.Action{Verb: decide.Create, Reason: decide.ReasonMissing, KnownUID: "u"}), decide.Create, ReasonRecreationBackOff},
		"generated and emptied": {generated(decide.Action{Verb: decide.Apply, Reason: decide.ReasonChanged}), decide.Apply, ReasonRepairBackOff},
	} {
		t.Run(name, func(t *testing.T) {
			begin, s, writes := time.Unix(1e9, 0), State{}, 0
			c.decided.Key, c.decided.Object.Digest = secret, "declared"
			if c.decided.Verb != decide.Delete {
				c.decided.Object.Desired = &unstructured.Unstructured{}
			}
			// reconcile says whether the object was written.
			reconcile := func(request Request, digest string, now time.Time) bool {
				c.decided.Object.Digest = digest
				actions := []decide.Action{c.decided}
				problems, due := s.Hold(actions, func(plan.Key) Request { return request }, now)
				if actions[0].Verb == decide.Wait {
					if len(problems) != 1 || problems[0].Reason != c.reason || problems[0].Class != plan.Blocked || !due.After(now) {
						t.Fatalf("it waits until %s for %+v", due, problems)
					}
					return false
				}
				actions[0].Verb = c.done
				s.Record(act.Result{Action: actions[0], Wrote: true}, request, now)
				return true
			}
			now := begin
			for now.Before(begin.Add(time.Hour)) {
				declared := "declared"
				if c.decided.Object.Generated {
					declared = now.String()
				}
				if reconcile(Request{User: "1"}, declared, now) {
					writes++
				}
				now = now.Add(100 * time.Millisecond)
			}
			if most := backoff.TakenBack.Free + 10 + 12; writes <= backoff.TakenBack.Free || writes > most {
				t.Errorf("it was written %d times within an hour, not %d at most", writes, most)
			}
			for range backoff.TakenBack.Free {
				if !reconcile(Request{User: "2"}, "declared", now) {
					t.Error("what the user asks for waits")
				}
			}
			c.decided.Object.Generated = false
			for range backoff.TakenBack.Free {
				if !reconcile(Request{User: "2"}, "declared anew", now) {
					t.Error("something else that is declared waits")
				}
			}
		})
	}
}

// TestInvariant18PodsOfContentThatIsNewEachTimeAreReplacedLessAndLessOften: another client, such as one that issues a certificate in a loop, puts
// content into what pods are rendered from that was never there before. How many pods there are to be is followed at once all the same, since that
// replaces none.
func TestInvariant18PodsOfContentThatIsNewEachTimeAreReplacedLessAndLessOften(t *testing.T) {
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet"} {
		begin, s, writes := time.Unix(1e9, 0), State{}, 0
		of := plan.Key{GroupKind: schema.GroupKind{Group: "apps", Kind: kind}, Namespace: "ns", Name: "x"}
		now, last := begin, ""
		reconcile := func(user, secret string, replicas int64) bool {
			request := Request{User: user}
			object := plan.Stamped{Digest: fmt.Sprint(secret, replicas)}
			object.Desired = &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
				"replicas": replicas, "template": map[string]any{"metadata": map[string]any{"annotations": map[string]any{"digest": secret}}},
			}}}
			actions := []decide.Action{{Verb: decide.Apply, Reason: decide.ReasonChanged, Key: of, KnownUID: "u", UID: "u", Object: object}}
			problems, due := s.Hold(actions, func(plan.Key) Request { return request }, now)
			if actions[0].Verb == decide.Apply {
				s.Record(act.Result{Action: actions[0], Wrote: true}, request, now)
				last = secret
				return true
			}
			if len(problems) != 1 || problems[0].Reason != ReasonRepairBackOff || !due.After(now) {
				t.Fatalf("it waits until %s for %+v", due, problems)
			}
			return false
		}
		for ; now.Before(begin.Add(time.Hour)); now = now.Add(time.Second) {
			if reconcile("1", now.String(), 1) {
				writes++
			}
		}
		if most := backoff.TakenBack.Free + 10 + 12; writes <= backoff.TakenBack.Free || writes > most {
			t.Errorf("%s: it was written %d times within an hour, not %d at most", kind, writes, most)
		}
		for replicas := range int64(100) {
			if !reconcile("1", last, 2+replicas) {
				t.Fatalf("%s: the replicas wait", kind)
			}
		}
		if reconcile("1", "new", 1) {
			t.Errorf("%s: the replicas have ended the pause", kind)
		}
		if !reconcile("2", "new", 1) {
			t.Errorf("%s: what the user asks for waits", kind)
		}
		now = now.Add(time.Hour)
		if !reconcile("2", "once more", 1) || !s.repetitions[of].unproven().IsZero() {
			t.Errorf("%s: an hour later it waits: %+v", kind, s.repetitions[of])
		}
	}
}
