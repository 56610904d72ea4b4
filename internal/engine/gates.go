package engine

import (
	"fmt"
	"slices"
	"time"

	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/inventory"
	"mlkeeper.dev/internal/engine/plan"
)

// gateTimedOut says that the gate of a stage has been closed for its timeout.
func (s *stacks[C, F]) gateTimedOut(p *reconciliation[C, F], stage plan.Stage, st decide.Stage) bool {
	waitsFor := decide.ClosedBy(decide.Input{Stack: p.stack, Owners: p.owners}, st)
	return s.timedOut(p, "stage "+stage.Name, waitsFor, stage.Timeout)
}

// timedOut keeps since when a gate holds back what comes after it; one that has been closed for its timeout opens with
// a warning (invariant 14).
func (s *stacks[C, F]) timedOut(p *reconciliation[C, F], gate, waitsFor string, timeout time.Duration) bool {
	if waitsFor == "" {
		return false
	}
	now := s.Clock.Now()
	if timeout == 0 {
		timeout = plan.DefaultGateTimeout
	}
	until := p.closedSince(gate, now).Add(timeout)
	if now.Before(until) {
		p.requeueAt(until)
		return false
	}
	p.warnings = append(p.warnings, fmt.Sprintf(
		"%s still waits for %s after %s; what comes after it goes on without it", gate, waitsFor, timeout))
	return true
}

// closedSince returns since when a gate is closed, and has the next reconcile know it. A gate that no reconcile asks about is forgotten: a
// stage that comes back later waits anew.
func (p *reconciliation[C, F]) closedSince(gate string, now time.Time) time.Time {
	since, closed := p.state.gates[gate]
	if !closed {
		since = now
	}
	if p.gates == nil {
		p.gates = map[string]time.Time{}
	}
	p.gates[gate] = since
	return since
}

// holdReplaced has what a stage no longer has stay while an object of the stage waits for another, be it to be created or to be changed: it may be what
// replaces it, and whatever it waits for may be wrong for as long as the timeout of the gate. Which stage an object was of, Inventories tell. What a
// custom resource owns itself may be of any.
func (p *reconciliation[C, F]) holdReplaced() {
	keeping := p.stagesThatKeep()
	if len(keeping) == 0 {
		return
	}
	prunable := map[plan.Key]bool{}
	for _, inv := range p.inventories {
		for _, e := range inv.Spec.Entries {
			prunable[inventory.KeyOf(e)] = !keeping[inv.Spec.StageName]
		}
	}
	for i := range p.actions {
		if a := &p.actions[i]; a.Verb == decide.Delete && a.Object.Desired == nil && !prunable[a.Key] {
			a.Verb, a.Reason, a.Detail = decide.Wait, decide.ReasonDependency, "what may replace "+a.Key.String()
		}
	}
}

// stagesThatKeep are the stages that keep what they no longer have. An object that waits for its own pruning (plan.Object.Hold) does not count, and after a
// rollback none does: what failed is in the way.
func (p *reconciliation[C, F]) stagesThatKeep() map[string]bool {
	out := map[string]bool{}
	for _, stage := range p.plan.Stages {
		if stage.KeepsPruned {
			out[stage.Name] = true
		}
	}
	if slices.ContainsFunc(p.problems, func(problem plan.Problem) bool { return problem.AllowsPruning }) {
		return out
	}
	for _, a := range p.actions {
		waits := a.Object.Desired != nil && a.Verb == decide.Wait && a.Reason == decide.ReasonDependency && a.Object.Hold == ""
		if waits && !isSuspended(p.plan.Stages, a.Object) {
			out[p.plan.Stages[a.Object.Stage].Name] = true
		}
	}
	return out
}
