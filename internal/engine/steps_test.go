package engine

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
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
