package engine

import (
	"context"
	"fmt"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/status"
	"mlkeeper.dev/internal/engine/wiring"
)

// report projects what was observed onto the custom resource's status, writes it once and only if it changed, and says
// when to come back.
func (s *stacks[C, F]) report(ctx context.Context, p *reconciliation[C, F]) (reconcile.Result, error) {
	p.state.refs = p.reader.done(p.state.refs)
	seen := s.summarize(p)
	p.lags = !seen.Ready && p.lagging(seen)
	var verdict controller.Verdict
	if !p.gatherFailed {
		verdict = s.sys.Project(p.cr, p.facts, seen)
	}
	s.settleRollout(p, seen.Ready)
	status.SetConditions(s.def.Common(p.cr), p.cr.GetGeneration(), status.Input{
		Seen: seen, Verdict: verdict, Ceded: p.yielded, Err: p.transient, RolloutWaits: p.held,
	})
	common := s.def.Common(p.cr)
	*common.ObservedGeneration = p.cr.GetGeneration()
	if at := p.cr.GetAnnotations()[keeper.ReconcileAtAnnotation]; at != "" {
		*common.LastHandledReconcileAt = at
	}
	if err := s.persistInventory(ctx, p, seen.Ready); err != nil {
		return reconcile.Result{}, err
	}
	s.progress(p.state, meta.IsStatusConditionTrue(*common.Conditions, status.ConditionReconciling))
	p.failed = verdict.Failed
	if verdict.Again {
		p.requeueAt(s.Clock.Now())
	}
	wait, err := s.writeStatus(ctx, p, verdict.Hold || verdict.Again)
	if err != nil {
		s.metrics.reconciled(s.def.GVK.Kind, outcomeError)
		return reconcile.Result{}, err
	}
	s.metrics.observe(s.def.GVK.Kind, p.key, seen.Objects,
		meta.FindStatusCondition(*common.Conditions, status.ConditionReady), seen.Now)
	return s.result(p, seen, wait)
}

// result ends the reconcile in one of three ways (contribution guideline 5): transient (backoff), waiting (woken by a watch or a
// deadline), terminal (waits for a change).
func (s *stacks[C, F]) result(p *reconciliation[C, F], seen controller.Seen, wait time.Duration) (reconcile.Result, error) {
	if p.transient != nil {
		s.metrics.reconciled(s.def.GVK.Kind, outcomeError)
		return reconcile.Result{}, p.transient
	}
	outcome := outcomeReady
	if seen.Ready {
		s.contents.shed(p.state.refs)
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
	if p.blocked {
		p.requeueAt(p.state.blocked.Failed(blockedRetry, p.userRequest(), now))
	} else {
		p.state.blocked = backoff.Retry{}
	}
	for _, at := range []time.Time{p.plan.WakeAt, p.nextAt, p.reader.due, p.state.retryAt()} {
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

// summarize sums up what is known of every object after this pass.
func (s *stacks[C, F]) summarize(p *reconciliation[C, F]) controller.Seen {
	var wired map[string][]wiring.Outcome
	wired, p.awaits = s.wiringOf(p.state)
	seen := controller.Seen{
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
		if state.Current || p.informative[a.Key] {
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

// lagging says that nothing is amiss but that controllers have not looked yet at the latest generation of objects that are as
// declared, such as a Deployment that somebody annotated.
func (p *reconciliation[C, F]) lagging(seen controller.Seen) bool {
	lags := false
	for _, a := range p.actions {
		state, there := seen.Objects[a.Key]
		if !there || state.Current || p.informative[a.Key] {
			continue
		}
		if a.Verb != decide.Leave || state.Observed == nil || state.Observed.Health.Reason != health.ReasonNotObserved {
			return false
		}
		lags = true
	}
	return lags
}

// leaving says that what the plan no longer has is still there, as far as this pass knows.
func (p *reconciliation[C, F]) leaving(a decide.Action) bool {
	_, recorded := p.entries[a.Key]
	return a.Reason == decide.ReasonTerminating || a.Verb == decide.Delete && (a.ResourceVersion != "" || recorded)
}

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

// persistInventory writes the inventory: onto the status of the custom resource, or into its Inventories.
func (s *stacks[C, F]) persistInventory(ctx context.Context, p *reconciliation[C, F], ready bool) error {
	if p.gatherFailed {
		return nil
	}
	keep := map[plan.Key]bool{}
	for _, key := range p.plan.Keep {
		keep[key] = true
	}
	for _, a := range p.actions {
		// A deleted object stays in the inventory until the watch says that it is gone.
		keep[a.Key] = true
	}
	for key, uid := range p.state.deleted {
		if e, ok := p.entries[key]; p.pruned && !keep[key] && (!ok || e.UID == uid) {
			delete(p.state.deleted, key)
		}
	}
	var entries []keeper.InventoryEntry
	for key, e := range p.entries {
		// While a problem stands, what the plan no longer has is neither pruned nor forgotten; nor is what no watch can show yet.
		if keep[key] || !p.pruned || !s.informers.ChildSynced(key.GroupKind, s.def.Controller) {
			entries = append(entries, e)
		}
	}
	sort.Slice(entries, func(i, j int) bool { return keyOf(entries[i]).String() < keyOf(entries[j]).String() })
	if len(p.inventories) > 0 {
		s.def.Common(p.cr).Inventory.Entries = nil
		p.state.pendingEntries = entries
		if !ready && s.deferInventory(p) {
			return nil
		}
		if err := s.kept.record(ctx, p.inventories, p.stamped, entries); err != nil {
			return err
		}
		p.state.pendingEntries = nil
		return nil
	}
	if len(entries) == 0 {
		entries = nil
	}
	s.def.Common(p.cr).Inventory.Entries = entries
	return nil
}

// maxUnrecorded is how long what was written into the cluster waits at most to be recorded in the Inventories.
const maxUnrecorded = 10 * time.Second

// deferInventory says that a pass leaves it to the next to record what it made. While a stack is brought up one pass follows the
// other, and each would write most of the Inventories again. What a crash leaves pendingEntries is known by its labels.
func (s *stacks[C, F]) deferInventory(p *reconciliation[C, F]) bool {
	now := s.Clock.Now()
	if p.state.pendingEntriesSince.IsZero() {
		p.state.pendingEntriesSince = now
	}
	until := p.state.pendingEntriesSince.Add(maxUnrecorded)
	if !p.madeOnly() || !now.Before(until) {
		p.state.pendingEntriesSince = time.Time{}
		return false
	}
	p.requeueAt(until)
	return true
}

// madeOnly says that this pass wrote something, and deleted nothing.
func (p *reconciliation[C, F]) madeOnly() bool {
	wrote := false
	for _, r := range p.results {
		if r.Action.Verb == decide.Delete {
			return false
		}
		wrote = wrote || r.Wrote
	}
	return wrote
}

// recordEvent emits an event for each transition that a person would want to know of, and only for transitions.
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
		return // On its way, as declared: no news.
	default:
		kind = corev1.EventTypeWarning
	}
	log.FromContext(ctx).Info("ready changed", "ready", is.Status, "reason", is.Reason, "message", is.Message)
	s.recorder.Eventf(p.before, nil, kind, is.Reason, "Reconcile", "%s", is.Message)
}

// isSuspended says that nothing may be written for a custom resource.
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

// suspended reports that nothing is written for the custom resource, once, and does nothing else.
func (s *stacks[C, F]) suspended(ctx context.Context, p *reconciliation[C, F]) (reconcile.Result, error) {
	s.progress(p.state, false)
	s.releaseRollout(p.key)
	if at := p.cr.GetAnnotations()[keeper.ReconcileAtAnnotation]; at != "" {
		*s.def.Common(p.cr).LastHandledReconcileAt = at
	}
	reason, by := reasonSuspendAnnotation, "the annotation "+keeper.SuspendAnnotation
	if p.cr.GetAnnotations()[keeper.SuspendAnnotation] != "true" {
		reason, by = reasonSuspendField, "spec.suspend"
	}
	status.Set(s.def.Common(p.cr).Conditions, metav1.Condition{
		Type: status.ConditionSuspended, Status: metav1.ConditionTrue, Reason: reason,
		Message:            "nothing is written until " + by + " is removed",
		ObservedGeneration: p.cr.GetGeneration(),
	}, metav1.NewTime(s.Clock.Now()))
	_, err := s.writeStatus(ctx, p, true)
	s.metrics.reconciled(s.def.GVK.Kind, outcomeSuspended)
	return reconcile.Result{}, err
}

func keyOf(e keeper.InventoryEntry) plan.Key {
	k := plan.Key{Namespace: e.Namespace, Name: e.Name}
	k.Group, k.Kind = e.Group, e.Kind
	return k
}

// entryOf records what a write answered.
func entryOf(o plan.Stamped, seen *observe.Object, leftOut []string) keeper.InventoryEntry {
	return keeper.InventoryEntry{
		ObjectReference: keeper.ObjectReference{
			Group: o.Key.Group, Version: o.Desired.GroupVersionKind().Version, Kind: o.Key.Kind,
			Namespace: o.Key.Namespace, Name: o.Key.Name,
		},
		UID: seen.UID, AppliedHash: o.Digest, OwnedFieldsHash: seen.OwnedFieldsHash, Policy: policyOf(o, seen), LeftOut: fewer(leftOut),
	}
}

// policyOf says whether an object is to outlive its custom resource, because the plan says so or since it was adopted.
func policyOf(o plan.Stamped, seen *observe.Object) keeper.EntryPolicy {
	if seen.Adopted() {
		return keeper.Retain
	}
	return o.Policy()
}

// The bounds of what an inventory tells of what was left out of an object, as its schema has them.
const maxLeftOut, maxLeftOutLength = 16, 512

// fewer keeps what an inventory may hold of the warnings about one object, and says how many there are beside them.
func fewer(warnings []string) []string {
	var out []string
	for i, w := range warnings {
		if i == maxLeftOut-1 && len(warnings) > maxLeftOut {
			return append(out, fmt.Sprintf("and %d more", len(warnings)-i))
		}
		out = append(out, controller.Cut(w, maxLeftOutLength))
	}
	return out
}
