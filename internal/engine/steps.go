package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/inventory"
	"mlkeeper.dev/internal/engine/plan"
)

// ReasonHookFailed says that a Job or Pod that others wait for has failed, ReasonHookRunning that it takes longer than the timeout of its
// stage.
const (
	ReasonHookFailed  = "HookFailed"
	ReasonHookRunning = "HookRunning"
)

// orderSteps sets what the objects of a stage wait for within it, and reports hooks that have failed or do not end. It returns false
// while a hook holds something back: until then what runs must not be pruned either.
func (s *stacks[C, F]) orderSteps(p *reconciliation[C, F], in decide.Input, i int) bool {
	stage := p.plan.Stages[i]
	if stage.Suspended {
		return true
	}
	for _, item := range decide.Spend(in, in.Stages[i]) {
		p.entries[item.Key] = *item.Known
	}
	failed := s.failedHooks(p, in.Stages[i])
	ordered := inSteps(in, i)
	steps := decide.Steps(in, ordered)
	free := true
	// In their order, in which the warnings are told.
	for _, step := range slices.Sorted(maps.Keys(steps)) {
		before := steps[step]
		gate := fmt.Sprintf("step %d of stage %s", step, stage.Name)
		switch {
		case before.Hook:
			free = false
			if !failed {
				s.reportRunning(p, stage, before.Waits)
			}
		case s.timedOut(p, gate, before.Waits, stage.Timeout):
			steps[step] = decide.Before{}
		}
	}
	for _, item := range ordered {
		if item.StepOf == "" || item.Observed != nil {
			item.Ordered = steps[item.Step].Waits
		}
	}
	return free && !failed
}

// recordedRuns says that something which is deleted once it has completed, and was left since the API server did not have it in the inventory yet, can
// be deleted now: stored returns the entry that it has of an object. The event of our own write enqueues nothing.
func recordedRuns(actions []decide.Action, stored func(plan.Stamped) keeper.InventoryEntry) bool {
	return slices.ContainsFunc(actions, func(a decide.Action) bool {
		if !a.Object.DeleteCompleted || a.Verb != decide.Leave || a.Reason != decide.ReasonCompleted || a.UID == "" {
			return false
		}
		e := stored(a.Object)
		return e.UID == a.UID && decide.RecordsRun(a.Object, e)
	})
}

// storedNow returns the entries of the custom resource as the API server has them after the writes of a reconcile.
func (s *stacks[C, F]) storedNow(p *reconciliation[C, F]) func(plan.Stamped) keeper.InventoryEntry {
	entries := sync.OnceValue(func() map[plan.Key]keeper.InventoryEntry {
		cr, _, found := s.current(p.key)
		if !found || cr.GetUID() != p.stack.UID {
			return nil
		}
		return s.storedEntries(cr)()
	})
	return func(o plan.Stamped) keeper.InventoryEntry {
		return inventory.Open(s.sealer(p.stack.UID), entries()[o.Key], o.Digest, s.child(o.Key))
	}
}

// inSteps are the objects of the steps of a stage, with those of other stages.
func inSteps(in decide.Input, i int) []*decide.Item {
	var out []*decide.Item
	for j, stage := range in.Stages {
		for k := range stage.Items {
			if item := &stage.Items[k]; item.StepOf == "" && i == j || item.StepOf != "" && item.StepOf == in.Stages[i].Name {
				out = append(out, item)
			}
		}
	}
	return out
}

// failedHooks reports the hooks of a stage that have failed, and says whether there are any.
func (s *stacks[C, F]) failedHooks(p *reconciliation[C, F], stage decide.Stage) (any bool) {
	for _, item := range stage.Items {
		why, failed := item.Failed()
		if !failed || item.Suspended {
			continue
		}
		any = true
		kind := strings.ToLower(item.Key.Kind)
		p.problems = append(p.problems, plan.Problem{
			Class: plan.Terminal, Reason: ReasonHookFailed, Field: item.Key.Kind, Value: item.Key.Namespace + "/" + item.Key.Name,
			Object:  item.Key,
			Message: "the hook has failed (" + why + "); nothing that comes after it is applied, and what runs stays as it is",
			Remedy: fmt.Sprintf("see kubectl logs -n %s %s/%s, and correct the values or the chart; kubectl delete %s -n %s %s runs it again",
				item.Key.Namespace, kind, item.Key.Name, kind, item.Key.Namespace, item.Key.Name),
		})
	}
	return any
}

// reportRunning reports a hook that has run for longer than the timeout of its stage. Nothing goes on without it.
func (s *stacks[C, F]) reportRunning(p *reconciliation[C, F], stage plan.Stage, waits string) {
	now, timeout := s.Clock.Now(), stage.Timeout
	if timeout == 0 {
		timeout = plan.DefaultGateTimeout
	}
	if until := p.closedSince("hooks of stage "+stage.Name, now).Add(timeout); now.Before(until) {
		p.requeueAt(until)
		return
	}
	p.problems = append(p.problems, plan.Problem{
		Class: plan.Waiting, Reason: ReasonHookRunning, Field: "stage", Value: stage.Name,
		Message: fmt.Sprintf("it has waited for %s for more than %s; nothing that comes after it is applied, and what runs stays as it is",
			waits, timeout.Round(time.Second)),
		Remedy: "look at its pods, give the Job activeDeadlineSeconds, or delete it to run it again",
	})
}
