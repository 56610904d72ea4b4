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

	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/status"
)

// Status writes that wait for more, so that a burst of events costs one write.
const (
	// maxWiring is how long a Ready waits at most for the wires that it lets loose, so that one write tells of both.
	maxWiring = time.Second
	// maxAnswer is how long it waits at most for the answer to a probe, for the same reason.
	maxAnswer = 500 * time.Millisecond
	// maxOpening is how long nothing is told of a watch that is being opened. Most are open before anybody looks.
	maxOpening = 5 * time.Second
)

// writeStatus patches the status if it changed, at once where the next pass acts on what is stored (urgent) or the
// verdict is another, else when the change has waited for more; the rest of the wait is returned.
func (s *stacks[C, F]) writeStatus(ctx context.Context, p *reconciliation[C, F], urgent bool) (time.Duration, error) {
	before, after := s.def.Common(p.before), s.def.Common(p.cr)
	if equality.Semantic.DeepEqual(p.before, p.cr) {
		p.state.minor, p.state.holdSince, p.state.pendingStatus = time.Time{}, time.Time{}, nil
		s.awaitWires(p, false)
		return 0, nil
	}
	p.state.pendingStatus = after.Inventory
	now := s.Clock.Now()
	if rest := s.holdStatus(p, urgent, now); rest > 0 {
		return rest, nil
	}
	defer s.awaitWires(p, false)
	p.state.minor, p.state.holdSince = time.Time{}, time.Time{}
	if after.LastUpdateTime != nil {
		*after.LastUpdateTime = &metav1.Time{Time: now.Truncate(time.Second)}
	}
	patch, err := status.Patch(p.before, p.cr, status.Preconditions(p.before, urgent))
	if err != nil {
		return 0, err
	}
	mapping, ok := s.catalog.Lookup(s.def.GVK)
	if !ok {
		return 0, nil
	}
	// Only metadata is asked for in return: the rest is known, and may be large.
	out, err := s.metadata.Resource(mapping.Resource).Namespace(p.key.Namespace).Patch(ctx, p.key.Name,
		types.MergePatchType, patch, metav1.PatchOptions{FieldManager: observe.FieldManager}, "status")
	if apierrors.IsNotFound(err) {
		return 0, nil // The custom resource is gone: its own event follows.
	}
	if err != nil {
		return 0, fmt.Errorf("write the status of %s: %w", p.key, err)
	}
	if out.Generation == p.cr.GetGeneration() {
		written := withMetadata(p.cr.DeepCopyObject().(C), out)
		s.mu.Lock()
		s.written[p.key] = written
		s.mu.Unlock()
	}
	p.state.pendingStatus = nil
	s.metrics.statusWritten(s.def.GVK.Kind)
	s.recordEvent(ctx, p, before, after)
	s.enqueueWires(p.key.Namespace)
	return 0, nil
}

// withMetadata gives a custom resource the metadata that a write of its status answered, in which there may be what others
// wrote meanwhile.
func withMetadata[C metav1.Object](cr C, out *metav1.PartialObjectMetadata) C {
	delete(out.Annotations, corev1.LastAppliedConfigAnnotation)
	cr.SetLabels(out.Labels)
	cr.SetAnnotations(out.Annotations)
	cr.SetFinalizers(out.Finalizers)
	cr.SetOwnerReferences(out.OwnerReferences)
	cr.SetDeletionTimestamp(out.DeletionTimestamp)
	cr.SetResourceVersion(out.ResourceVersion)
	return cr
}

// holdStatus says how long a changed status still waits for more.
func (s *stacks[C, F]) holdStatus(p *reconciliation[C, F], urgent bool, now time.Time) time.Duration {
	before, after := s.def.Common(p.before), s.def.Common(p.cr)
	switch {
	case urgent:
		return 0
	case p.warmingUp() && status.HoldFor(before, after) > 0:
		if p.state.holdSince.IsZero() {
			p.state.holdSince = now
		}
		return p.state.holdSince.Add(status.HoldFor(before, after)).Sub(now)
	case status.BecameReady(before, after):
		// The wires act on what is about to be told, so that their outcome is part of it.
		return s.awaitWires(p, true)
	case status.VerdictChanged(before, after):
		return 0
	}
	s.awaitWires(p, false)
	if p.state.minor.IsZero() {
		p.state.minor = now
	}
	return p.state.minor.Add(s.debounceOf(p.state)).Sub(now)
}

// awaitWires shows the wires a custom resource as it is about to be told Ready, and forgets it where that is not so. It
// returns for how long they, and the first answers to what the controller asks, are still waited for.
func (s *stacks[C, F]) awaitWires(p *reconciliation[C, F], ready bool) time.Duration {
	if !ready {
		s.mu.Lock()
		delete(s.pendingReady, p.key)
		p.state.unacknowledged = nil
		s.mu.Unlock()
		return 0
	}
	unacknowledged := map[wireTarget]bool{}
	for _, w := range s.wires {
		for _, target := range w.targets(p.key.Namespace) {
			unacknowledged[wireTarget{w.wire.Name, target}] = true
		}
	}
	s.mu.Lock()
	_, known := s.pendingReady[p.key]
	if !known {
		s.pendingReady[p.key] = p.cr.DeepCopyObject().(C)
		p.state.pendingSince, p.state.unacknowledged = s.Clock.Now(), unacknowledged
	}
	// What came in since this pass looked at the outcomes is not in the status that it is about to write.
	since, waits := p.state.pendingSince, p.awaits || len(p.state.unacknowledged) > 0
	s.mu.Unlock()
	if !known {
		s.enqueueWires(p.key.Namespace)
	}
	switch {
	case waits:
		return since.Add(maxWiring).Sub(s.Clock.Now())
	case p.reader.unanswered:
		return since.Add(maxAnswer).Sub(s.Clock.Now())
	}
	return 0
}

// progress counts the custom resources that progress.
func (e *Engine) progress(l *reconcileState, progressing bool) {
	if progressing != l.progressing {
		e.debounce.Count(progressing, e.Clock.Now())
	}
	l.progressing = progressing
}

// debounceOf is how long a status change of a custom resource waits that alters no verdict.
func (e *Engine) debounceOf(l *reconcileState) time.Duration {
	if !l.progressing {
		return status.Settled
	}
	return e.debounce.Progress(e.Clock.Now())
}

// warmingUp says that nothing is amiss but that not everything is known yet: as after the start of this process, a watch is being
// opened or something is being fetched, or a controller has yet to look at its object.
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
