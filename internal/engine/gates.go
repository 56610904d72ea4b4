package engine

import (
	"fmt"
	"time"

	"mlkeeper.dev/internal/engine/decide"
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
