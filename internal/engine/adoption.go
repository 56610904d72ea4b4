package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/status"
	"mlkeeper.dev/internal/engine/watch"
)

// adoptResource takes the finalizers of the previous operator off a custom resource, so that its deletion never waits for
// somebody who is gone (invariant 8). It says whether it wrote; the watch then enqueues the custom resource again. A suspended
// one is left alone until it is being deleted.
func (s *stacks[C, F]) adoptResource(ctx context.Context, cr metav1.Object) (bool, error) {
	kept := slices.DeleteFunc(slices.Clone(cr.GetFinalizers()), func(f string) bool {
		return slices.Contains(s.def.StripFinalizers, f)
	})
	if len(kept) == len(cr.GetFinalizers()) || s.isSuspended(cr) && cr.GetDeletionTimestamp() == nil {
		return false, nil
	}
	switch outcome, err := s.release(ctx, cr); {
	case err != nil:
		return true, err
	case outcome != released:
		// The pass that follows tells what is missing.
		return false, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": cr.GetUID(), "resourceVersion": cr.GetResourceVersion(), "finalizers": kept,
		"annotations": map[string]any{keeper.PreviousOperatorAnnotation: "true"},
	}})
	if err != nil {
		return false, err
	}
	return true, s.patch(ctx, cr, patch)
}

// outcome of a release.
type outcome int

const (
	// released: nothing that must stay goes with the custom resource any more.
	released outcome = iota
	// releaseWaits for a watch that is being opened.
	releaseWaits
	// releaseFails since it is not known what the custom resource asks for.
	releaseFails
)

// release frees what must outlive the custom resource from it, before the finalizer goes that keeps the garbage
// collector from it. Where it is not known what that is, since facts are missing or the custom resource does not fit its
// type, the finalizer stays; but a deletion must never hang, so then every object of a kind that is kept is freed.
func (s *stacks[C, F]) release(ctx context.Context, cr metav1.Object) (outcome, error) {
	out := releaseFails
	if alive, ok := cr.(C); ok {
		var err error
		if out, err = s.releaseRendered(ctx, alive); err != nil {
			return out, err
		}
	}
	if out == released || cr.GetDeletionTimestamp() == nil {
		return out, nil
	}
	if out == releaseWaits {
		key := client.ObjectKey{Namespace: cr.GetNamespace(), Name: cr.GetName()}
		if rest := s.opens(s.stateOf(key)); rest > 0 {
			s.queue.addLast(rest, key.Namespace, key.Name)
			return out, nil
		}
	}
	stack := s.stackOf(cr)
	for _, gvk := range s.def.Retained {
		if err := s.actor.ReleaseOwned(ctx, gvk, stack, s.self(cr)); err != nil {
			return out, err
		}
	}
	return released, nil
}

// releaseRendered frees what the controller renders as retained or orphaned.
func (s *stacks[C, F]) releaseRendered(ctx context.Context, cr C) (outcome, error) {
	p := s.newReconciliation(cr)
	facts, err := s.sys.Gather(ctx, p.reader, p.cr)
	p.state.refs = p.reader.done(p.state.refs)
	var problem plan.Problem
	switch {
	case errors.As(err, &problem) && problem.Reason == decide.ReasonNotSynced:
		return releaseWaits, nil
	case errors.As(err, &problem):
		return releaseFails, nil
	case err != nil:
		return releaseFails, fmt.Errorf("gather: %w", err)
	}
	self := s.self(cr)
	rendered := s.sys.Render(p.cr, facts)
	for _, stage := range rendered.Stages {
		for _, o := range stage.Objects {
			if o.Policy() == "" {
				continue
			}
			stamped, err := plan.Stamp(o, p.stack, self, 0)
			if err != nil {
				return releaseFails, err
			}
			if err := s.actor.Release(ctx, stamped, []plan.Owner{self}); err != nil {
				return releaseFails, err
			}
		}
	}
	if len(rendered.Problems) > 0 {
		return releaseFails, nil // Not everything may have been rendered.
	}
	return released, nil
}

// self is the custom resource as an owner.
func (s *stacks[C, F]) self(cr metav1.Object) plan.Owner {
	return plan.Owner{
		APIVersion: s.def.GVK.GroupVersion().String(), Kind: s.def.GVK.Kind, Name: cr.GetName(), UID: cr.GetUID(),
	}
}

// patch writes to a custom resource by a merge patch. That it is gone is no failure, since its own event follows.
func (s *stacks[C, F]) patch(ctx context.Context, cr metav1.Object, patch []byte, sub ...string) error {
	mapping, ok := s.catalog.Lookup(s.def.GVK)
	if !ok {
		return nil
	}
	_, err := s.client.Resource(mapping.Resource).Namespace(cr.GetNamespace()).Patch(ctx, cr.GetName(),
		types.MergePatchType, patch, metav1.PatchOptions{FieldManager: observe.FieldManager}, sub...)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write %s %s/%s: %w", s.def.GVK.Kind, cr.GetNamespace(), cr.GetName(), err)
	}
	return nil
}

// undecodable reports a custom resource that does not fit its type, as Stalled, and leaves everything else alone
// (invariant 17).
func (s *stacks[C, F]) undecodable(ctx context.Context, bad *watch.Undecodable) (reconcile.Result, error) {
	if !s.shard.mine(bad.GetNamespace(), bad.GetLabels()) {
		return reconcile.Result{}, nil
	}
	if taken, err := s.adoptResource(ctx, bad); err != nil || taken {
		return reconcile.Result{}, err
	}
	s.metrics.reconciled(s.def.GVK.Kind, outcomeStalled)
	before, after := conditionsOf(bad.Unstructured), conditionsOf(bad.Unstructured)
	problem := plan.Problem{
		Class: plan.Terminal, Reason: status.ReasonInvalidSpec, Field: "spec", Message: bad.Err.Error(),
		Remedy: "correct the field that does not fit its type; until then nothing of this resource is changed",
	}
	now := metav1.NewTime(s.Clock.Now())
	message := status.Bounded(problem.Error())
	status.Set(&after, metav1.Condition{
		Type: status.ConditionReady, Status: metav1.ConditionFalse, Reason: status.ReasonInvalidSpec, Message: message,
		ObservedGeneration: bad.GetGeneration(),
	}, now)
	status.SetAbnormalTrue(&after, status.ConditionStalled, true, status.ReasonInvalidSpec, message, bad.GetGeneration(), now)
	meta.RemoveStatusCondition(&after, status.ConditionReconciling)
	if reflect.DeepEqual(before, after) || bad.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, nil
	}
	log.FromContext(ctx).Info("the custom resource does not fit its type and is left alone", "error", bad.Err.Error())
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": bad.GetUID()},
		"status":   map[string]any{"conditions": after, "observedGeneration": bad.GetGeneration()},
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, s.patch(ctx, bad, patch, "status")
}

// conditionsOf reads the conditions of a custom resource as far as they can be read.
func conditionsOf(u *unstructured.Unstructured) []metav1.Condition {
	list, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
	if err != nil {
		return nil
	}
	var out []metav1.Condition
	for _, item := range list {
		m, isMap := item.(map[string]any)
		var c metav1.Condition
		if isMap && runtime.DefaultUnstructuredConverter.FromUnstructured(m, &c) == nil {
			out = append(out, c)
		}
	}
	return out
}
