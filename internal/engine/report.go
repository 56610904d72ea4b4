package engine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/status"
	"mlkeeper.dev/internal/engine/wiring"
	"mlkeeper.dev/internal/parallel"
)

// report projects the observed state onto the status of the custom resource, writes the status if it changed, and returns when to
// reconcile next.
func (s *stacks[C, F]) report(ctx context.Context, p *reconciliation[C, F]) (reconcile.Result, error) {
	if !p.gatherFailed {
		if p.reader.WatchLost(ctx, p.plan) {
			p.requeueAt(s.Clock.Now().Add(staleRetry))
		}
		s.watchTakenNames(ctx, p)
	}
	p.state.refs = p.reader.Done(p.state.refs)
	seen := s.summarize(p)
	p.lags = !seen.Ready && p.lagging(seen)
	verdict, err := s.project(ctx, p, seen)
	if err != nil {
		p.transient, p.cr = err, p.before.DeepCopyObject().(C)
		seen = s.summarize(p)
	}
	s.settleRollout(p, seen.Ready)
	status.SetConditions(s.def.Common(p.cr), p.cr.GetGeneration(), status.Input{
		State: seen, Verdict: verdict, Ceded: p.ceded, Err: p.transient, RolloutWaits: p.held,
	})
	common := s.def.Common(p.cr)
	*common.ObservedGeneration = p.cr.GetGeneration()
	if at := requestedAt(p.cr); at != "" {
		*common.LastHandledReconcileAt = at
	}
	if err := s.persistInventory(ctx, p, seen.Ready); err != nil {
		return s.fail(ctx, p, err)
	}
	s.endUnusedWatches(p)
	s.progress(p.state, meta.IsStatusConditionTrue(*common.Conditions, status.ConditionReconciling))
	p.failed = verdict.Failed
	wait, err := s.writeStatus(ctx, p, verdict.Step || verdict.Again)
	if err != nil {
		s.metrics.reconciled(s.def.GVK.Kind, outcomeError)
		return reconcile.Result{}, err
	}
	if verdict.Again && wait == 0 {
		p.requeueAt(s.Clock.Now())
	}
	if recordedRuns(p.actions, s.storedNow(p)) {
		p.requeueAt(s.Clock.Now())
	}
	s.metrics.observe(s.def.GVK.Kind, p.key, seen.Objects,
		meta.FindStatusCondition(*common.Conditions, status.ConditionReady), seen.Now)
	return s.result(p, seen, wait)
}

// project has the controller write what was observed onto the status. It returns a panic of the controller as an error.
func (s *stacks[C, F]) project(ctx context.Context, p *reconciliation[C, F], seen controller.ObservedState) (verdict controller.Verdict, err error) {
	if p.gatherFailed {
		return verdict, nil
	}
	err = parallel.Recovered(ctx, func(context.Context) error {
		verdict = s.sys.Project(p.cr, p.facts, seen)
		return nil
	})
	return verdict, err
}

// result returns how the reconcile ends: with an error, which is retried with backoff; waiting for a watch event or a deadline; or
// stalled until the spec or another object changes.
func (s *stacks[C, F]) result(p *reconciliation[C, F], seen controller.ObservedState, wait time.Duration) (reconcile.Result, error) {
	if p.transient != nil {
		s.metrics.reconciled(s.def.GVK.Kind, outcomeError)
		return reconcile.Result{}, p.transient
	}
	outcome := outcomeReady
	if seen.Ready {
		s.readers.Evict(p.state.refs)
	} else {
		outcome = outcomeRequeueAfter
	}
	for _, problem := range p.problems {
		if problem.Class == plan.Terminal {
			outcome = outcomeStalled
		}
	}
	s.metrics.reconciled(s.def.GVK.Kind, outcome)
	now := s.Clock.Now()
	p.state.retries.SetBlocked(p.blocked, userRequest(p.cr), now)
	for _, at := range []time.Time{p.plan.WakeAt, p.nextAt, p.reader.Due(), p.state.retries.Due(p.began)} {
		if !at.IsZero() {
			wait = sooner(wait, max(at.Sub(now), time.Millisecond))
		}
	}
	return reconcile.Result{RequeueAfter: wait}, nil
}

// sooner returns the shorter of two waits, where zero means none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// summarize returns what is known of every object after this reconcile.
func (s *stacks[C, F]) summarize(p *reconciliation[C, F]) controller.ObservedState {
	var wired map[string][]wiring.Outcome
	wired, p.awaits = s.wiringOf(p)
	seen := controller.ObservedState{
		Plan:    p.plan,
		Objects: map[plan.Key]controller.State{}, Problems: p.problems, Now: s.Clock.Now(), Warnings: p.warnings,
		Wiring: wired, Ready: !p.gatherFailed && len(p.problems) == 0 && p.transient == nil,
	}
	seen.Warnings = append(append([]string(nil), p.plan.Warnings...), p.warnings...)
	for _, a := range p.actions {
		if a.Object.Desired == nil {
			if p.leaving(a) {
				seen.Leaving = append(seen.Leaving, a.Key)
			}
			if a.Verb == decide.Wait && seen.Waiting == "" {
				seen.Waiting = "waiting for " + a.Detail
			}
			continue
		}
		if a.Verb == decide.Skip {
			seen.Skipped = append(seen.Skipped, fmt.Sprintf(
				"%s: the API %s is not served", a.Key, a.Object.Desired.GroupVersionKind().GroupVersion()))
			continue
		}
		state := s.objectState(p, a)
		seen.Objects[a.Key] = state
		if state.Current || p.ignoreHealth[a.Key] && a.Reason != decide.ReasonTerminating {
			continue
		}
		seen.Ready = false
		if seen.Waiting == "" {
			seen.Waiting = waitsFor(a, state)
		}
	}
	if p.transient != nil {
		seen.Waiting = "retrying: " + p.transient.Error()
	}
	return seen
}

// lagging says that every object is as declared, and that a controller has not observed the latest generation of one of them, such as a
// Deployment that was annotated.
func (p *reconciliation[C, F]) lagging(seen controller.ObservedState) bool {
	lags := false
	for _, a := range p.actions {
		state, there := seen.Objects[a.Key]
		if !there || state.Current || p.ignoreHealth[a.Key] {
			continue
		}
		if a.Verb != decide.Leave || state.Observed == nil || state.Observed.Health.Reason != health.ReasonNotObserved {
			return false
		}
		lags = true
	}
	return lags
}

// leaving says that an object that the plan no longer has may still exist.
func (p *reconciliation[C, F]) leaving(a decide.Action) bool {
	if p.results[a.Key].Kept && !p.refused {
		// A read found that it stays for good.
		return false
	}
	_, recorded := p.entries[a.Key]
	return a.Reason == decide.ReasonTerminating || a.Reason == decide.ReasonNotSynced || a.Verb == decide.Delete && (a.ResourceVersion != "" || recorded)
}

// waitsFor returns what an object that is not current waits for.
func waitsFor(a decide.Action, state controller.State) string {
	switch {
	case a.Verb == decide.Wait:
		return "waiting for " + a.Detail
	case state.Observed == nil:
		return "waiting for " + a.Key.String() + " to exist"
	case state.Observed.Health.Message != "":
		return "waiting for " + a.Key.String() + ": " + state.Observed.Health.Message
	}
	return "waiting for " + a.Key.String()
}

// recordEvent emits an event when Ready changes its status or its reason, except for normal progress.
func (s *stacks[C, F]) recordEvent(ctx context.Context, p *reconciliation[C, F], before, after controller.Common) {
	was := meta.FindStatusCondition(*before.Conditions, status.ConditionReady)
	is := meta.FindStatusCondition(*after.Conditions, status.ConditionReady)
	if is == nil || was != nil && was.Status == is.Status && was.Reason == is.Reason {
		return
	}
	kind := corev1.EventTypeNormal
	switch {
	case is.Status == metav1.ConditionTrue:
		if p.state.fresh {
			s.metrics.becameReady(s.def.GVK.Kind, s.Clock.Now().Sub(p.cr.GetCreationTimestamp().Time))
			p.state.fresh = false
		}
		if s.def.WarningsOnly {
			return
		}
	case !p.failed && (len(p.problems) == 0 || p.warmingUp()) && (was == nil || was.Status != metav1.ConditionTrue):
		return // Normal progress.
	default:
		kind = corev1.EventTypeWarning
	}
	log.FromContext(ctx).Info("ready changed", "ready", is.Status, "reason", is.Reason, "message", is.Message)
	s.recorder.Eventf(p.before, nil, kind, is.Reason, "Reconcile", "%s", is.Message)
}

// isSuspended says that no object of a custom resource may be written.
func (s *stacks[C, F]) isSuspended(o metav1.Object) bool {
	if o.GetAnnotations()[keeper.SuspendAnnotation] == "true" {
		return true
	}
	cr, ok := o.(C)
	return ok && s.def.Suspended != nil && s.def.Suspended(cr)
}

// The reasons of the condition Suspended.
const (
	reasonSuspendAnnotation = "SuspendAnnotation"
	reasonSuspendField      = "SuspendField"
)

// maxRequestedAt is the bound of the schemas on status.lastHandledReconcileAt: the API server refuses the whole status otherwise.
const maxRequestedAt = 64

// requestedAt is the last request to reconcile now, as the status has it once it was handled.
func requestedAt(cr metav1.Object) string {
	return controller.Cut(cr.GetAnnotations()[keeper.ReconcileAtAnnotation], maxRequestedAt)
}

// suspended reports that a custom resource is suspended, and does nothing else.
func (s *stacks[C, F]) suspended(ctx context.Context, p *reconciliation[C, F]) (reconcile.Result, error) {
	s.progress(p.state, false)
	s.releaseRollout(p.key)
	if at := requestedAt(p.cr); at != "" {
		*s.def.Common(p.cr).LastHandledReconcileAt = at
	}
	s.takeHeldInventory(p)
	reason, by := reasonSuspendAnnotation, "the annotation "+keeper.SuspendAnnotation
	if p.cr.GetAnnotations()[keeper.SuspendAnnotation] != "true" {
		reason, by = reasonSuspendField, "spec.suspend"
	}
	status.Set(s.def.Common(p.cr).Conditions, metav1.Condition{
		Type: status.ConditionSuspended, Status: metav1.ConditionTrue, Reason: reason,
		Message:            "nothing is written until " + by + " is removed",
		ObservedGeneration: p.cr.GetGeneration(),
	}, metav1.NewTime(s.Clock.Now()))
	wait, err := s.writeStatus(ctx, p, true)
	s.metrics.reconciled(s.def.GVK.Kind, outcomeSuspended)
	s.metrics.suspend(s.def.GVK.Kind, p.key)
	return reconcile.Result{RequeueAfter: wait}, err
}

// objectState tells what is known of one object after this pass's writes.
func (s *stacks[C, F]) objectState(p *reconciliation[C, F], a decide.Action) controller.State {
	var seen *observe.Object
	if r, ok := p.results[a.Key]; ok && r.Observed != nil {
		seen = r.Observed
	} else if a.Verb != decide.Conflict {
		seen = s.child(a.Key)
	}
	if seen == nil {
		return controller.State{Current: a.Reason == decide.ReasonCompleted}
	}
	if a.Reason == decide.ReasonCompleted {
		return controller.State{Observed: seen, Current: true}
	}
	if a.Object.Hook && !seen.Completed {
		return controller.State{Observed: seen}
	}
	seen = s.withHealth(p, a.Object, seen)
	settled := a.Verb == decide.Leave || a.Reason == status.ReasonWaitingForRollout
	if r, ok := p.results[a.Key]; ok {
		settled = r.Err == nil && r.Problem == nil && r.Observed != nil
	}
	return controller.State{Observed: seen, Current: settled && seen.Health.Status == health.Current}
}
