package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	testclock "k8s.io/utils/clock/testing"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

// TestNothingGoesOnWithoutAHook: what comes after a hook waits for as long as it runs, which is reported after a while; what comes after
// something else waits until the timeout. A hook that has failed stalls the custom resource.
func TestNothingGoesOnWithoutAHook(t *testing.T) {
	job := batchv1.SchemeGroupVersion.WithKind("Job").GroupKind()
	key := func(name string) plan.Key { return plan.Key{GroupKind: job, Namespace: "ns", Name: name} }
	item := func(name string, step int, hook bool, status health.Status, completed bool) decide.Item {
		seen := &observe.Object{Key: key(name), Health: health.Result{Status: status, Message: "why"}, Completed: completed}
		seen.Annotations = map[string]string{keeper.AppliedHashAnnotation: "d", keeper.OwnerAnnotation: (plan.Stack{}).ID()}
		seen.Labels = map[string]string{keeper.ControllerLabel: ""}
		return decide.Item{
			Stamped: plan.Stamped{Object: plan.Object{Step: step, Hook: hook}, Key: key(name), Digest: "d"}, Observed: seen, Served: true, Synced: true,
		}
	}
	for name, c := range map[string]struct {
		first          decide.Item
		suspended      bool
		after          time.Duration
		waits, reason  string
		prune, warning bool
	}{
		"a hook that runs":            {item("a", 0, true, health.InProgress, false), false, 0, "Job ns/a to complete", "", false, false},
		"for long":                    {item("a", 0, true, health.InProgress, false), false, time.Hour, "Job ns/a to complete", ReasonHookRunning, false, false},
		"that has completed":          {item("a", 0, true, health.Current, true), false, time.Hour, "", "", true, false},
		"that has failed":             {item("a", 0, true, health.Failed, false), false, time.Hour, "Job ns/a to complete", ReasonHookFailed, false, false},
		"that has failed, suspended":  {item("a", 0, true, health.Failed, false), true, time.Hour, "", "", true, false},
		"something else that is late": {item("a", 0, false, health.InProgress, false), false, time.Minute, "Job ns/a to be ready", "", true, false},
		"for long, and not a hook":    {item("a", 0, false, health.InProgress, false), false, time.Hour, "", "", true, true},
	} {
		clock := testclock.NewFakeClock(time.Unix(1e9, 0))
		s := &stacks[*keeper.Inventory, any]{Engine: &Engine{Options: Options{Clock: clock}}}
		state := &reconcileState{}
		var (
			p    *reconciliation[*keeper.Inventory, any]
			free bool
			in   decide.Input
		)
		for range 2 {
			in = decide.Input{Stages: []decide.Stage{{Name: "s", Items: []decide.Item{c.first, item("b", 1, false, health.Current, false)}}}}
			p = &reconciliation[*keeper.Inventory, any]{state: state, plan: plan.Plan{Stages: []plan.Stage{{Name: "s", Suspended: c.suspended}}}}
			free = s.orderSteps(p, in, 0)
			state.gates = p.gates
			clock.Step(c.after)
		}
		reason := ""
		for _, problem := range p.problems {
			reason += problem.Reason
			if problem.Remedy == "" || !strings.Contains(problem.Error(), "ns/a") {
				t.Errorf("%s: %s", name, problem)
			}
		}
		if got := in.Stages[0].Items[1].Ordered; got != c.waits || reason != c.reason || free != c.prune || len(p.warnings) > 0 != c.warning {
			t.Errorf("%s: it waits for %q, problems %q, prunes %t, warnings %q", name, got, reason, free, p.warnings)
		}
		if in.Stages[0].Items[0].Ordered != "" {
			t.Errorf("%s: the first waits for %q", name, in.Stages[0].Items[0].Ordered)
		}
	}
}

// TestStepsAreWarnedOfInTheirOrder has several that wait for one object until their timeout: a status whose warnings change places is written each
// time.
func TestStepsAreWarnedOfInTheirOrder(t *testing.T) {
	var items []decide.Item
	for step := range 12 {
		key := plan.Key{GroupKind: batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), Namespace: "ns", Name: fmt.Sprint("of-", step)}
		items = append(items, decide.Item{Stamped: plan.Stamped{Object: plan.Object{Step: step}, Key: key}, Served: true, Synced: true})
	}
	clock := testclock.NewFakeClock(time.Unix(1e9, 0))
	s := &stacks[*keeper.Inventory, any]{Engine: &Engine{Options: Options{Clock: clock}}}
	state := &reconcileState{}
	for range 10 {
		p := &reconciliation[*keeper.Inventory, any]{state: state, plan: plan.Plan{Stages: []plan.Stage{{Name: "s"}}}}
		s.orderSteps(p, decide.Input{Stages: []decide.Stage{{Name: "s", Items: slices.Clone(items)}}}, 0)
		state.gates = p.gates
		clock.Step(time.Hour)
		for i, w := range p.warnings {
			if !strings.HasPrefix(w, fmt.Sprintf("step %d of stage s ", i+1)) {
				t.Fatalf("warning %d is %q", i, w)
			}
		}
	}
	if len(state.gates) != len(items)-1 {
		t.Errorf("%d steps wait", len(state.gates))
	}
}

// TestADefinitionIsChangedInItsStep: it is there before the hooks of the stage that its step is of, which may need it, and changed after them.
// What comes after it there waits until it is as declared.
func TestADefinitionIsChangedInItsStep(t *testing.T) {
	item := func(kind string, step int, of string, digest string) decide.Item {
		key := plan.Key{GroupKind: batchv1.SchemeGroupVersion.WithKind(kind).GroupKind(), Namespace: "ns", Name: "a"}
		out := decide.Item{Stamped: plan.Stamped{Object: plan.Object{Step: step, StepOf: of, Hook: kind == "Job"}, Key: key, Digest: "d"}, Served: true, Synced: true}
		if digest != "" {
			out.Observed = &observe.Object{Key: key, Health: health.Result{Status: health.Current}}
			out.Observed.Annotations = map[string]string{keeper.AppliedHashAnnotation: digest, keeper.OwnerAnnotation: (plan.Stack{}).ID()}
			out.Observed.Labels = map[string]string{keeper.ControllerLabel: ""}
		}
		return out
	}
	for name, c := range map[string]struct {
		definition   decide.Item
		completed    bool
		waits, holds string
	}{
		"absent, and the hook runs":  {item("Definition", 1, "s", ""), false, "", "Job ns/a to complete"},
		"changed, and the hook runs": {item("Definition", 1, "s", "old"), false, "Job ns/a to complete", "Job ns/a to complete"},
		"changed after the hook":     {item("Definition", 1, "s", "old"), true, "", "Definition ns/a to be updated"},
		"as declared":                {item("Definition", 1, "s", "d"), true, "", ""},
		"of another stage":           {item("Definition", 1, "t", "old"), false, "", "Job ns/a to complete"},
		"of its own stage":           {item("Definition", 1, "", "old"), false, "", "Job ns/a to complete"},
	} {
		hook := item("Job", 0, "", "d")
		hook.Observed.Completed = c.completed
		in := decide.Input{Stages: []decide.Stage{
			{Name: "definitions", Items: []decide.Item{c.definition}},
			{Name: "s", Items: []decide.Item{hook, item("Service", 2, "", "d")}},
		}}
		s := &stacks[*keeper.Inventory, any]{Engine: &Engine{Options: Options{Clock: testclock.NewFakeClock(time.Unix(1e9, 0))}}}
		p := &reconciliation[*keeper.Inventory, any]{
			state: &reconcileState{}, plan: plan.Plan{Stages: []plan.Stage{{Name: "definitions"}, {Name: "s"}}},
		}
		for i := range in.Stages {
			s.orderSteps(p, in, i)
		}
		if got, after := in.Stages[0].Items[0].Ordered, in.Stages[1].Items[1].Ordered; got != c.waits || after != c.holds {
			t.Errorf("%s: it waits for %q, and what comes after it for %q", name, got, after)
		}
	}
}

// TestAHookDoesNotWaitForANamespaceThatIsChangedAfterIt, and neither does what comes later once the hook has completed.
func TestAHookDoesNotWaitForANamespaceThatIsChangedAfterIt(t *testing.T) {
	space := decide.Item{Stamped: plan.Stamped{
		Object: plan.Object{Step: 1, StepOf: "s"}, Digest: "d",
		Key: plan.Key{GroupKind: corev1.SchemeGroupVersion.WithKind("Namespace").GroupKind(), Name: "ns"},
	}, Served: true, Synced: true}
	space.Observed = &observe.Object{Key: space.Key, Health: health.Result{Status: health.Current}}
	space.Observed.Annotations = map[string]string{keeper.AppliedHashAnnotation: "old", keeper.OwnerAnnotation: (plan.Stack{}).ID()}
	space.Observed.Labels = map[string]string{keeper.ControllerLabel: ""}
	hook := decide.Item{Stamped: plan.Stamped{
		Object: plan.Object{Hook: true}, Digest: "d",
		Key: plan.Key{GroupKind: batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), Namespace: "ns", Name: "a"},
	}, Served: true, Synced: true}
	for _, completed := range []bool{false, true} {
		if completed {
			hook.Known = &keeper.InventoryEntry{UID: "u", AppliedHash: "d", Completed: true}
		}
		in := decide.Input{Stages: []decide.Stage{{Name: "definitions", Items: []decide.Item{space}}, {Name: "s", Items: []decide.Item{hook}}}}
		s := &stacks[*keeper.Inventory, any]{Engine: &Engine{Options: Options{Clock: testclock.NewFakeClock(time.Unix(1e9, 0))}}}
		p := &reconciliation[*keeper.Inventory, any]{
			state: &reconcileState{}, plan: plan.Plan{Stages: []plan.Stage{{Name: "definitions"}, {Name: "s"}}},
		}
		for i := range in.Stages {
			s.orderSteps(p, in, i)
		}
		got, want := map[string]decide.Verb{}, map[string]decide.Verb{"Namespace": decide.Wait, "Job": decide.Create}
		if completed {
			want = map[string]decide.Verb{"Namespace": decide.Apply, "Job": decide.Leave}
		}
		for _, a := range decide.Decide(in) {
			got[a.Key.Kind] = a.Verb
		}
		if closed := decide.ClosedBy(in, in.Stages[0]); !maps.Equal(got, want) || (closed != "") != completed {
			t.Errorf("the hook has completed: %t, and the actions are %v; the gate of the definitions waits for %q", completed, got, closed)
		}
	}
}

// TestWhatHooksNeedIsRecordedAsDone: the inventory has it, so that what was made for hooks alone is not made again once it was deleted.
func TestWhatHooksNeedIsRecordedAsDone(t *testing.T) {
	key := plan.Key{GroupKind: batchv1.SchemeGroupVersion.WithKind("Role").GroupKind(), Namespace: "ns", Name: "a"}
	seen := &observe.Object{Key: key}
	seen.UID, seen.Annotations = "u", map[string]string{keeper.AppliedHashAnnotation: "d"}
	item := decide.Item{
		Stamped: plan.Stamped{Object: plan.Object{DeleteCompleted: true}, Key: key, Digest: "d"}, Observed: seen, Served: true, Synced: true,
		Known: &keeper.InventoryEntry{UID: "u", AppliedHash: "d"},
	}
	p := &reconciliation[*keeper.Inventory, any]{
		state: &reconcileState{}, plan: plan.Plan{Stages: []plan.Stage{{Name: "s"}}}, entries: map[plan.Key]keeper.InventoryEntry{},
	}
	s := &stacks[*keeper.Inventory, any]{Engine: &Engine{}}
	s.orderSteps(p, decide.Input{Stages: []decide.Stage{{Name: "s", Items: []decide.Item{item}}}}, 0)
	if !p.entries[key].Completed {
		t.Errorf("the inventory has %+v", p.entries)
	}
}

// TestAHookWhoseManifestChangesWithinItsRunIsDeletedOnce has one that is to be deleted once it has completed, of which a certificate that is renewed
// changes the manifest, and one that its TTL removes. It is recorded before it is deleted, and for what it was run, so that no other run follows.
func TestAHookWhoseManifestChangesWithinItsRunIsDeletedOnce(t *testing.T) {
	for name, deletes := range map[string]bool{"it is deleted": true, "it stays": false} {
		t.Run(name, func(t *testing.T) {
			in, p := runOf("one", deletes)
			s := &stacks[*keeper.Inventory, any]{Engine: &Engine{}}
			item := &in.Stages[0].Items[0]
			s.orderSteps(p, in, 0)
			decides := func(when string, want decide.Verb) {
				t.Helper()
				if a := decide.Decide(in)[0]; a.Verb != want {
					t.Errorf("%s it is decided to %s, since %s", when, a.Verb, a.Reason)
				}
			}
			decides("before it is recorded", decide.Leave)
			e, found := p.entries[item.Key]
			if !found {
				t.Fatalf("the inventory has %+v", p.entries)
			}
			item.Stored = &e
			decides("once it is recorded", map[bool]decide.Verb{true: decide.Delete, false: decide.Leave}[deletes])
			// A manager that starts knows no more than the inventory.
			item.Known, item.Observed = &e, nil
			decides("once it is gone", decide.Leave)
			item.Digest = "of another change"
			decides("once it has changed again", decide.Leave)
			item.Desired.SetAnnotations(map[string]string{keeper.RunAnnotation: "two"})
			decides("for another revision", decide.Create)
		})
	}
}

// TestWhatIsRecordedIsDeletedWithoutAnEvent: nothing tells of the record of a hook that waits for it, and nothing else is looked at again for that.
func TestWhatIsRecordedIsDeletedWithoutAnEvent(t *testing.T) {
	key := plan.Key{GroupKind: batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), Namespace: "ns", Name: "hook"}
	waits := func() decide.Action {
		return decide.Action{
			Verb: decide.Leave, Reason: decide.ReasonCompleted, Key: key, UID: "u",
			Object: plan.Stamped{Object: plan.Object{Hook: true, DeleteCompleted: true}, Key: key, Digest: "d"},
		}
	}
	recorded := keeper.InventoryEntry{UID: "u", AppliedHash: "d", Completed: true}
	for name, c := range map[string]struct {
		change func(*decide.Action, *keeper.InventoryEntry)
		want   bool
	}{
		"it is recorded":                    {func(*decide.Action, *keeper.InventoryEntry) {}, true},
		"it is recorded as it runs":         {func(_ *decide.Action, e *keeper.InventoryEntry) { e.Completed = false }, false},
		"another of the name is recorded":   {func(_ *decide.Action, e *keeper.InventoryEntry) { e.UID = "v" }, false},
		"it is recorded for something else": {func(_ *decide.Action, e *keeper.InventoryEntry) { e.AppliedHash = "old" }, false},
		"it is gone":                        {func(a *decide.Action, _ *keeper.InventoryEntry) { a.UID = "" }, false},
		"it stays once it has completed":    {func(a *decide.Action, _ *keeper.InventoryEntry) { a.Object.DeleteCompleted = false }, false},
		"it is deleted":                     {func(a *decide.Action, _ *keeper.InventoryEntry) { a.Verb = decide.Delete }, false},
		"its component is suspended":        {func(a *decide.Action, _ *keeper.InventoryEntry) { a.Reason = decide.ReasonSuspended }, false},
	} {
		a, e := waits(), recorded
		c.change(&a, &e)
		stored := func(plan.Stamped) keeper.InventoryEntry { return e }
		if got := recordedRuns([]decide.Action{{Key: plan.Key{Name: "other"}}, a}, stored); got != c.want {
			t.Errorf("%s: it is looked at again at once: %t", name, got)
		}
	}
}

// TestTheInventoryTellsWhatWasRunFor: also that of a manager of before, for what is as it is declared.
func TestTheInventoryTellsWhatWasRunFor(t *testing.T) {
	for digest, want := range map[string]string{"new": "one", "old": ""} {
		s, _ := bareStacks()
		in, _ := runOf("one", true)
		o := in.Stages[0].Items[0].Stamped
		p := passOf("ns", newState("uid"), "")
		p.entries = map[plan.Key]keeper.InventoryEntry{o.Key: {UID: "u", AppliedHash: digest, Completed: true}}
		if s.follow(p, s.sealer("uid"), o); p.entries[o.Key].Run != want {
			t.Errorf("%s: the inventory has %+v", digest, p.entries[o.Key])
		}
	}
}

// runOf is a hook that has completed for a run, and is declared otherwise for the same one.
func runOf(run string, deletes bool) (decide.Input, *reconciliation[*keeper.Inventory, any]) {
	key := plan.Key{GroupKind: batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), Namespace: "ns", Name: "hook"}
	desired := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job"}}
	desired.SetAnnotations(map[string]string{keeper.RunAnnotation: run})
	seen := &observe.Object{Key: key, Completed: true}
	seen.UID, seen.Labels = "u", map[string]string{keeper.ControllerLabel: ""}
	seen.Annotations = map[string]string{
		keeper.AppliedHashAnnotation: "old", keeper.RunAnnotation: run, keeper.OwnerAnnotation: (plan.Stack{}).ID(),
	}
	item := decide.Item{
		Stamped:  plan.Stamped{Object: plan.Object{Hook: true, DeleteCompleted: deletes, Desired: desired}, Key: key, Digest: "new"},
		Observed: seen, Served: true, Synced: true, Known: &keeper.InventoryEntry{UID: "u", AppliedHash: "old", Completed: true},
	}
	p := &reconciliation[*keeper.Inventory, any]{
		state: &reconcileState{}, plan: plan.Plan{Stages: []plan.Stage{{Name: "s"}}}, entries: map[plan.Key]keeper.InventoryEntry{},
	}
	return decide.Input{Stages: []decide.Stage{{Name: "s", Items: []decide.Item{item}}}}, p
}
