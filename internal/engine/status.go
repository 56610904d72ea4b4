package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/retry"
	"mlkeeper.dev/internal/engine/status"
)

// writeStatus patches the status if it changed and nothing holds the change (status.Hold), and returns how long it is held. The next
// reconcile acts on what an urgent write stores.
func (s *stacks[C, F]) writeStatus(ctx context.Context, p *reconciliation[C, F], urgent bool) (time.Duration, error) {
	before, after := s.def.Common(p.before), s.def.Common(p.cr)
	if equality.Semantic.DeepEqual(p.before, p.cr) {
		p.state.hold, p.state.pendingStatus = status.Hold{}, nil
		s.withdrawReady(p.key)
		return 0, nil
	}
	p.state.pendingStatus = after.Inventory
	now := s.Clock.Now()
	var rest time.Duration
	if p.state.hold, rest = p.state.hold.Next(s.statusChange(p, urgent), now); rest > 0 {
		return rest, nil
	}
	defer s.withdrawReady(p.key)
	sum, again, err := p.rewrites()
	if err != nil {
		return 0, err
	}
	if again && p.state.rewrites.Waits(now) {
		return p.state.rewrites.Due().Sub(now), nil
	}
	if after.LastUpdateTime != nil {
		*after.LastUpdateTime = &metav1.Time{Time: now.Truncate(time.Second)}
	}
	patch, err := status.Patch(p.before, p.cr, status.Preconditions(p.before))
	if err != nil {
		return 0, err
	}
	mapping, ok := s.catalog.Lookup(s.def.GVK)
	if !ok {
		return 0, nil
	}
	// The answer is metadata only: the rest is known, and may be large.
	out, err := s.metadata.Resource(mapping.Resource).Namespace(p.key.Namespace).Patch(ctx, p.key.Name,
		types.MergePatchType, patch, metav1.PatchOptions{FieldManager: observe.FieldManager}, "status")
	if apierrors.IsNotFound(err) {
		return 0, nil // The custom resource was deleted; its event follows.
	}
	if err != nil {
		return 0, fmt.Errorf("write the status of %s: %w", p.key, err)
	}
	if out.Generation == p.cr.GetGeneration() {
		s.mu.Lock()
		p.state.statusVersion = out.ResourceVersion
		s.mu.Unlock()
		s.informers.WroteResource(s.def.GVK.GroupKind(), withMetadata(s.kept(), p.cr.DeepCopyObject().(C), out))
	}
	p.state.hold, p.state.pendingStatus = status.Hold{}, nil
	s.rewrote(p, sum, again, now)
	s.metrics.statusWritten(s.def.GVK.Kind)
	s.recordEvent(ctx, p, before, after)
	s.enqueueWires(p.key.Namespace)
	return 0, nil
}

// rewrites returns the sum of the status that is to be written, and says whether it is the one that was written last, which somebody else has
// changed since: an operator of before, for instance, that still runs.
func (p *reconciliation[C, F]) rewrites() (sum uint64, again bool, err error) {
	if sum, err = status.Sum(p.cr); err != nil || sum != p.state.written {
		return sum, false, err
	}
	stored, err := status.Sum(p.before)
	return sum, stored != sum, err
}

// rewrote takes in that a status was written, and tells of one that somebody else changes whenever it was.
func (s *stacks[C, F]) rewrote(p *reconciliation[C, F], sum uint64, again bool, now time.Time) {
	p.state.written = sum
	if !again {
		p.state.rewrites = backoff.Repetition{}
		return
	}
	p.state.rewrites.Again(backoff.TakenBack, now)
	if p.state.rewrites.Paused() {
		s.recorder.Eventf(p.before, nil, corev1.EventTypeWarning, retry.ReasonRepairBackOff, "Status",
			"somebody else changes the status whenever it was written: find out who, by its managedFields, and stop that controller")
	}
}

// reportedAfter is how many attempts fail before the status says so; the pause after the last of them is more than six seconds. Most
// errors pass sooner, and the status stays meanwhile.
const reportedAfter = 8

// fail ends a reconcile that cannot go on to its report, such as for an Inventory that cannot be written. Without a report of what fails
// for long, the status would say Ready of what is not applied, or nothing of a new custom resource.
func (s *stacks[C, F]) fail(ctx context.Context, p *reconciliation[C, F], err error) (reconcile.Result, error) {
	if p.cr.GetDeletionTimestamp() != nil || !s.failsForLong(p.key) {
		s.metrics.reconciled(s.def.GVK.Kind, outcomeError)
		return reconcile.Result{}, err
	}
	p.gatherFailed, p.transient = true, err
	return s.report(ctx, p)
}

// failsForLong says that so many attempts have failed that the next failure is told.
func (s *stacks[C, F]) failsForLong(key client.ObjectKey) bool {
	return s.queue.backoff.NumRequeues(reconcile.Request{NamespacedName: key}) >= reportedAfter
}

// withMetadata gives a custom resource what is kept of the metadata in the answer to the write of its status, which includes what others
// wrote meanwhile.
func withMetadata[C metav1.Object](kept observe.Metadata, cr C, out *metav1.PartialObjectMetadata) C {
	kept.Reduce(out)
	cr.SetLabels(out.Labels)
	cr.SetAnnotations(out.Annotations)
	cr.SetFinalizers(out.Finalizers)
	cr.SetOwnerReferences(out.OwnerReferences)
	cr.SetDeletionTimestamp(out.DeletionTimestamp)
	cr.SetResourceVersion(out.ResourceVersion)
	return cr
}

// statusChange collects what decides when a changed status is written. A Ready is shown to the wires first.
func (s *stacks[C, F]) statusChange(p *reconciliation[C, F], urgent bool) status.Change {
	out := status.Change{
		Before: s.def.Common(p.before), After: s.def.Common(p.cr), Urgent: urgent, Incomplete: p.warmingUp(),
		Unanswered: p.reader.Unanswered(), Debounce: s.debounce.Delay(p.state.progressing, s.Clock.Now()),
	}
	if urgent || !status.BecameReady(out.Before, out.After) {
		s.withdrawReady(p.key)
		return out
	}
	// Outcomes that came in after this reconcile read them are not in the status that it is about to write.
	out.Unacknowledged = s.showReady(p.key, p.cr) || p.awaits
	return out
}

// progress counts the custom resources that progress, for the debounce.
func (e *Engine) progress(l *reconcileState, progressing bool) {
	if progressing != l.progressing {
		e.debounce.Count(progressing, e.Clock.Now())
	}
	l.progressing = progressing
}

// warmingUp says that nothing is wrong, but that not everything is known yet: a watch is being opened, as after the start of this
// process, something is being fetched, or a controller has not observed its object.
func (p *reconciliation[C, F]) warmingUp() bool {
	if p.transient != nil {
		return false
	}
	if len(p.problems) > 0 {
		return !slices.ContainsFunc(p.problems, func(problem plan.Problem) bool {
			return !problem.Brief && problem.Reason != decide.ReasonNotSynced
		})
	}
	return p.lags || slices.ContainsFunc(p.actions, func(a decide.Action) bool {
		return a.Verb == decide.Wait && a.Reason == decide.ReasonNotSynced
	})
}
