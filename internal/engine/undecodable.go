package engine

import (
	"context"
	"encoding/json"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/status"
	"mlkeeper.dev/internal/engine/watch"
)

// undecodable reports a custom resource that does not fit its type, as Stalled, and leaves everything else alone
// (invariant 17).
func (s *stacks[C, F]) undecodable(ctx context.Context, bad *watch.Undecodable) (reconcile.Result, error) {
	if s.adopts(bad) && bad.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, s.adoptUnrendered(ctx, bad)
	}
	key := client.ObjectKeyFromObject(bad)
	state := s.stateOf(key)
	s.progress(state, false)
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
	s.metrics.observeReady(s.def.GVK.Kind, key, meta.FindStatusCondition(after, status.ConditionReady), now.Time)
	if reflect.DeepEqual(before, after) || bad.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, nil
	}
	if state.rewrites.Waits(now.Time) {
		// The controller for whose definition it fits may say otherwise each time.
		return reconcile.Result{RequeueAfter: state.rewrites.Due().Sub(now.Time)}, nil
	}
	state.rewrites.Again(backoff.TakenBack, now.Time)
	log.FromContext(ctx).Info("the custom resource does not fit its type and is left alone", "error", bad.Err.Error())
	patch, err := json.Marshal(map[string]any{
		"metadata": status.Preconditions(bad),
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
