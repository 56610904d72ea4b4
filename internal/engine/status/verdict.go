package status

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"mlkeeper.dev/internal/engine/controller"
)

// BecameReady says that the status of a custom resource that is accepted already changes to Ready.
func BecameReady(before, after controller.Common) bool {
	return *before.ObservedGeneration == *after.ObservedGeneration &&
		!meta.IsStatusConditionTrue(*before.Conditions, ConditionReady) &&
		meta.IsStatusConditionTrue(*after.Conditions, ConditionReady)
}

// isReady says that a custom resource is reported Ready in its current generation.
func isReady(common controller.Common, generation int64) bool {
	return *common.ObservedGeneration == generation && meta.IsStatusConditionTrue(*common.Conditions, ConditionReady)
}

// verdictChanged says whether a reader would act on the difference: another Ready or Stalled, another reason of Ready, or
// a new generation.
func verdictChanged(before, after controller.Common) bool {
	if requested(before, after) {
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

// requested says that a user expects an answer: to another spec, or to reconcile-at.
func requested(before, after controller.Common) bool {
	return *before.ObservedGeneration != *after.ObservedGeneration ||
		*before.LastHandledReconcileAt != *after.LastHandledReconcileAt
}
