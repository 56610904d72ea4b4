package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

// Status writes that wait for more, so that a burst of events costs one write.
const (
	// coalesce is how long a change of something that is not on its way waits if it alters no verdict.
	coalesce = 100 * time.Millisecond
	// maxWiring is how long a Ready waits at most for the wires that it lets loose, so that one write tells of both.
	maxWiring = time.Second
	// maxAnswer is how long it waits at most for the answer to a probe, for the same reason.
	maxAnswer = 500 * time.Millisecond
	// maxLearning is how long a custom resource stays Ready at most of which this process does not know everything yet, and
	// maxBrief how long one that is not Ready keeps the reason that it has.
	maxLearning = 10 * time.Second
	maxBrief    = time.Second
	// maxOpening is how long nothing is told of a watch that is being opened. Most are open before anybody looks.
	maxOpening = 5 * time.Second
	// Where custom resources are on their way, the progress of each is told after a second for every one that was with
	// it, so that all together tell about once a second: that must not take the API server's time from getting them there.
	minPatience, maxPatience = 2 * time.Second, 5 * time.Minute
)

// writeStatus patches the status if it changed, at once where the next pass acts on what is stored (urgent) or the
// verdict is another, else when the change has waited for more; the rest of the wait is returned.
func (s *stacks[C, F]) writeStatus(ctx context.Context, p *pass[C, F], urgent bool) (time.Duration, error) {
	before, after := s.def.Common(p.before), s.def.Common(p.cr)
	if equality.Semantic.DeepEqual(p.before, p.cr) {
		p.life.minor, p.life.learning, p.life.unsaved = time.Time{}, time.Time{}, nil
		s.foresee(p, false)
		return 0, nil
	}
	p.life.unsaved = after.Ledger
	now := s.Clock.Now()
	if rest := s.holdStatus(p, urgent, now); rest > 0 {
		return rest, nil
	}
	defer s.foresee(p, false)
	p.life.minor, p.life.learning = time.Time{}, time.Time{}
	if after.LastUpdateTime != nil {
		*after.LastUpdateTime = &metav1.Time{Time: now.Truncate(time.Second)}
	}
	patch, err := statusPatch(p.before, p.cr, guardOf(p.before, urgent))
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
	p.life.unsaved = nil
	s.metrics.statusWritten(s.def.GVK.Kind)
	s.announce(ctx, p, before, after)
	s.wakeWires(p.key.Namespace)
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
func (s *stacks[C, F]) holdStatus(p *pass[C, F], urgent bool, now time.Time) time.Duration {
	before, after := s.def.Common(p.before), s.def.Common(p.cr)
	switch {
	case urgent:
		return 0
	case p.learning() && ignorance(before, after) > 0:
		if p.life.learning.IsZero() {
			p.life.learning = now
		}
		return p.life.learning.Add(ignorance(before, after)).Sub(now)
	case becameReady(before, after):
		// The wires act on what is about to be told, so that their outcome is part of it.
		return s.foresee(p, true)
	case verdictChanged(before, after):
		return 0
	}
	s.foresee(p, false)
	if p.life.minor.IsZero() {
		p.life.minor = now
	}
	return p.life.minor.Add(s.patience(p.life)).Sub(now)
}

// foresee shows the wires a custom resource as it is about to be told Ready, and forgets it where that is not so. It
// returns for how long they, and the first answers to what the controller asks, are still waited for.
func (s *stacks[C, F]) foresee(p *pass[C, F], ready bool) time.Duration {
	if !ready {
		s.mu.Lock()
		delete(s.foreseen, p.key)
		p.life.awaited = nil
		s.mu.Unlock()
		return 0
	}
	awaited := map[wireTarget]bool{}
	for _, w := range s.wires {
		for _, target := range w.targets(p.key.Namespace) {
			awaited[wireTarget{w.wire.Name, target}] = true
		}
	}
	s.mu.Lock()
	_, known := s.foreseen[p.key]
	if !known {
		s.foreseen[p.key] = p.cr.DeepCopyObject().(C)
		p.life.foreseen, p.life.awaited = s.Clock.Now(), awaited
	}
	// What came in since this pass looked at the outcomes is not in the status that it is about to write.
	since, waits := p.life.foreseen, p.awaits || len(p.life.awaited) > 0
	s.mu.Unlock()
	if !known {
		s.wakeWires(p.key.Namespace)
	}
	switch {
	case waits:
		return since.Add(maxWiring).Sub(s.Clock.Now())
	case p.reader.unanswered:
		return since.Add(maxAnswer).Sub(s.Clock.Now())
	}
	return 0
}

// progress counts the custom resources that are on their way.
func (e *Engine) progress(l *life, progressing bool) {
	if progressing != l.progressing {
		e.underway.add(progressing, e.Clock.Now())
	}
	l.progressing = progressing
}

// patience is how long a status change of a custom resource waits that alters no verdict.
func (e *Engine) patience(l *life) time.Duration {
	if !l.progressing {
		return coalesce
	}
	return min(max(time.Second*time.Duration(e.underway.most(e.Clock.Now())), minPatience), maxPatience)
}

// becameReady says that the custom resource, already accepted, is to be told Ready.
func becameReady(before, after controller.Common) bool {
	return *before.ObservedGeneration == *after.ObservedGeneration &&
		!meta.IsStatusConditionTrue(*before.Conditions, ConditionReady) &&
		meta.IsStatusConditionTrue(*after.Conditions, ConditionReady)
}

// isReady says that a custom resource is told Ready as it is declared now.
func isReady(common controller.Common, generation int64) bool {
	return *common.ObservedGeneration == generation && meta.IsStatusConditionTrue(*common.Conditions, ConditionReady)
}

// learning says that nothing is amiss but that not everything is known yet: as after the start of this process, a watch is being
// opened or something is being fetched, or a controller has yet to look at its object.
func (p *pass[C, F]) learning() bool {
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

// ignorance is for how long a custom resource keeps the status that it has while this process is learning.
func ignorance(before, after controller.Common) time.Duration {
	switch {
	case isReady(before, *after.ObservedGeneration):
		return maxLearning
	case askedAnew(before, after):
		return 0
	}
	return maxBrief
}

// verdictChanged says whether a reader would act on the difference: another Ready or Stalled, another reason of Ready, or
// a new generation.
func verdictChanged(before, after controller.Common) bool {
	if askedAnew(before, after) {
		return true
	}
	for _, name := range []string{ConditionReady, ConditionStalled, ConditionSuspended} {
		a, b := meta.FindStatusCondition(*before.Conditions, name), meta.FindStatusCondition(*after.Conditions, name)
		if (a == nil) != (b == nil) || a != nil && a.Status != b.Status {
			return true
		}
		if name == ConditionReady && a != nil && a.Reason != b.Reason {
			return true
		}
	}
	return false
}

// askedAnew says that a user waits for an answer: to another spec, or to being asked to reconcile now.
func askedAnew(before, after controller.Common) bool {
	return *before.ObservedGeneration != *after.ObservedGeneration ||
		*before.LastHandledReconcileAt != *after.LastHandledReconcileAt
}

// guardOf is what a status patch says of the custom resource that it is meant for: the UID, so that what is made anew does not
// get the status of what is gone. What the next pass acts on (a step) must follow from what is stored, hence the version too:
// another leader may have stored a step meanwhile, and what two of them have stored in parts is no step at all.
func guardOf(before metav1.Object, step bool) map[string]any {
	out := map[string]any{"uid": before.GetUID()}
	if step {
		out["resourceVersion"] = before.GetResourceVersion()
	}
	return out
}

// statusPatch is a merge patch of the status alone, guarded by metadata.
func statusPatch(before, after runtime.Object, guard map[string]any) ([]byte, error) {
	a, err := statusOnly(before)
	if err != nil {
		return nil, err
	}
	b, err := statusOnly(after)
	if err != nil {
		return nil, err
	}
	raw, err := jsonpatch.CreateMergePatch(a, b)
	if err != nil {
		return nil, err
	}
	patch := map[string]any{}
	if err := json.Unmarshal(raw, &patch); err != nil {
		return nil, err
	}
	patch["metadata"] = guard
	return json.Marshal(patch)
}

// statusOnly encodes the status alone, since specs may be large. Every kind has it in a field of that name.
func statusOnly(o runtime.Object) ([]byte, error) {
	return json.Marshal(map[string]any{"status": reflect.ValueOf(o).Elem().FieldByName("Status").Interface()})
}
