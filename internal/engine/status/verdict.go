package status

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"mlkeeper.dev/internal/engine/controller"
)

const (
	// maxReadyHeld is how long a custom resource stays Ready at most of which this process does not know everything yet, and
	// maxReasonHeld how long one that is not Ready keeps the reason that it has.
	maxReadyHeld  = 10 * time.Second
	maxReasonHeld = time.Second
)

// BecameReady says that the custom resource, already accepted, is to be told Ready.
func BecameReady(before, after controller.Common) bool {
	return *before.ObservedGeneration == *after.ObservedGeneration &&
		!meta.IsStatusConditionTrue(*before.Conditions, ConditionReady) &&
		meta.IsStatusConditionTrue(*after.Conditions, ConditionReady)
}

// IsReady says that a custom resource is told Ready as it is declared now.
func IsReady(common controller.Common, generation int64) bool {
	return *common.ObservedGeneration == generation && meta.IsStatusConditionTrue(*common.Conditions, ConditionReady)
}

// HoldFor is for how long a custom resource keeps the status that it has while the caches of this process are not complete.
func HoldFor(before, after controller.Common) time.Duration {
	switch {
	case IsReady(before, *after.ObservedGeneration):
		return maxReadyHeld
	case requested(before, after):
		return 0
	}
	return maxReasonHeld
}

// VerdictChanged says whether a reader would act on the difference: another Ready or Stalled, another reason of Ready, or
// a new generation.
func VerdictChanged(before, after controller.Common) bool {
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

// requested says that a user waits for an answer: to another spec, or to reconcile-at.
func requested(before, after controller.Common) bool {
	return *before.ObservedGeneration != *after.ObservedGeneration ||
		*before.LastHandledReconcileAt != *after.LastHandledReconcileAt
}
