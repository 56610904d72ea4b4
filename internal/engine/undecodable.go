package engine

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"

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
	problem := s.whyUndecodable(bad)
	now := metav1.NewTime(s.Clock.Now())
	message := status.Bounded(problem.Error())
	status.Set(&after, metav1.Condition{
		Type: status.ConditionReady, Status: metav1.ConditionFalse, Reason: problem.Reason, Message: message,
		ObservedGeneration: bad.GetGeneration(),
	}, now)
	stalled, progresses := status.ConditionStalled, status.ConditionReconciling
	if problem.Class == plan.Waiting {
		stalled, progresses = progresses, stalled
	}
	status.SetAbnormalTrue(&after, stalled, true, problem.Reason, message, bad.GetGeneration(), now)
	meta.RemoveStatusCondition(&after, progresses)
	s.metrics.observeReady(s.def.GVK.Kind, key, meta.FindStatusCondition(after, status.ConditionReady), now.Time)
	if reflect.DeepEqual(before, after) || bad.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, nil
	}
	if state.rewrites.Waits(now.Time) {
		// The controller for whose definition it fits may say otherwise each time.
		return reconcile.Result{RequeueAfter: state.rewrites.Due().Sub(now.Time)}, nil
	}
	state.rewrites.Again(backoff.TakenBack, now.Time)
	log.FromContext(ctx).Info("the custom resource cannot be read and is left alone", "error", bad.Err.Error())
	patch, err := json.Marshal(map[string]any{
		"metadata": status.Preconditions(bad),
		"status":   map[string]any{"conditions": after, "observedGeneration": bad.GetGeneration()},
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, s.patch(ctx, bad, patch, "status")
}

// reasonTooLarge is the reason while the custom resources of a namespace take too much memory.
const reasonTooLarge = "TooLarge"

// whyUndecodable is what the status says of a custom resource that is not cached whole. Where there is room for it now, the change of the status
// has the watch send it once more: the message differs each time, since it may not fit when it comes.
func (s *stacks[C, F]) whyUndecodable(bad *watch.Undecodable) plan.Problem {
	var large *tooLargeError
	switch {
	case !errors.As(bad.Err, &large):
		return plan.Problem{
			Class: plan.Terminal, Reason: status.ReasonInvalidSpec, Field: "spec", Message: bad.Err.Error(),
			Remedy: "correct the field that does not fit its type; until then nothing of this resource is changed",
		}
	case slices.Contains(s.budgets.fitting(bad.GetNamespace()), client.ObjectKeyFromObject(bad)):
		return plan.Problem{
			Class: plan.Waiting, Reason: status.ReasonProgressing, Remedy: "nothing to do",
			Message: "the namespace has room for this resource again: it is read anew after its version " + bad.GetResourceVersion(),
		}
	}
	return plan.Problem{
		Class: plan.Terminal, Reason: reasonTooLarge, Field: "metadata.namespace", Value: bad.GetNamespace(), Message: large.Error(),
		Remedy: "make it smaller, delete others, or move some into another namespace; until then nothing of this resource is changed",
	}
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
