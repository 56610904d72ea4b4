package finalize

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/status"
)

// The conditions of Inventories are the state of a finalization, so that a fail-over continues it. OwnerDeleted and WebhooksDeleted are
// on the Inventory of the first stage, which is deleted last; Finalizing is on the Inventory that is deleted next.
const (
	// ConditionOwnerDeleted is True once a live read confirmed that the custom resource is deleted.
	ConditionOwnerDeleted = "OwnerDeleted"
	// ConditionWebhooksDeleted is True once the webhooks and APIServices that call the stack's Services are deleted.
	ConditionWebhooksDeleted = "WebhooksDeleted"
	// ConditionFinalizing is True while the deletion of the Inventory waits. Its lastTransitionTime is since when.
	ConditionFinalizing = "Finalizing"
)

// The reasons of these conditions.
const (
	ReasonOwnerNotFound               = "OwnerNotFound"
	ReasonWebhooksDeleted             = "WebhooksDeleted"
	ReasonCacheNotSynced              = "CacheNotSynced"
	ReasonWaitingForObjects           = "WaitingForObjects"
	ReasonWaitingForGarbageCollection = "WaitingForGarbageCollection"
	ReasonDeletionFailed              = "DeletionFailed"
)

// maxWait is how long an Inventory waits at most, for an object with the finalizer of a controller that does not run for instance.
const maxWait = plan.DefaultGateTimeout

func isTrue(inv *keeper.Inventory, condition string) bool {
	return meta.IsStatusConditionTrue(inv.Status.Conditions, condition)
}

// wait records what an Inventory waits for, and returns for how much longer. It returns zero, and writes nothing, if the Inventory has
// waited long enough. A deletion that fails has a wait of its own, once: what the Inventory waited for before says nothing of it.
func (f *Finalizer) wait(ctx context.Context, inv *keeper.Inventory, reason, message string) (time.Duration, error) {
	now, since := f.Clock.Now(), f.Clock.Now()
	c := meta.FindStatusCondition(inv.Status.Conditions, ConditionFinalizing)
	switch {
	case c == nil || c.Status != metav1.ConditionTrue:
	case c.Reason == ReasonDeletionFailed:
		reason, since = c.Reason, c.LastTransitionTime.Time
	case reason == ReasonDeletionFailed:
		inv = inv.DeepCopy()
		meta.RemoveStatusCondition(&inv.Status.Conditions, ConditionFinalizing)
	default:
		since = c.LastTransitionTime.Time
	}
	rest := since.Add(maxWait).Sub(now)
	if rest <= 0 {
		return 0, nil
	}
	_, err := f.setConditions(ctx, inv, metav1.Condition{Type: ConditionFinalizing, Reason: reason, Message: message})
	return rest, err
}

// setConditions sets conditions to True and returns the Inventory as it is then. It writes nothing if they are so already.
func (f *Finalizer) setConditions(ctx context.Context, inv *keeper.Inventory, conditions ...metav1.Condition) (*keeper.Inventory, error) {
	next := inv.DeepCopy()
	for _, c := range conditions {
		c.Status, c.ObservedGeneration, c.Message = metav1.ConditionTrue, inv.Generation, status.Bounded(c.Message)
		status.Set(&next.Status.Conditions, c, metav1.NewTime(f.Clock.Now()))
	}
	if equality.Semantic.DeepEqual(inv.Status.Conditions, next.Status.Conditions) {
		return inv, nil
	}
	written, err := f.Inventories.UpdateStatus(ctx, next)
	if err != nil {
		return nil, err
	}
	if len(written.Status.Conditions) == 0 {
		// Without them no wait would ever end.
		return nil, errors.New("the CustomResourceDefinition of Inventory is older than the operator and has no conditions: run make install")
	}
	return written, nil
}

// reset removes the state of a finalization whose custom resource exists, as after a restore from a backup.
func (f *Finalizer) reset(ctx context.Context, invs []*keeper.Inventory) error {
	for _, inv := range invs {
		if len(inv.Status.Conditions) == 0 {
			continue
		}
		next := inv.DeepCopy()
		next.Status.Conditions = nil
		if _, err := f.Inventories.UpdateStatus(ctx, next); err != nil {
			return fmt.Errorf("reset the finalization: %w", err)
		}
	}
	return nil
}
