// Package status decides what the status of a custom resource says, and when a change of it is worth a write. It is pure: it reads no
// cluster and writes nothing. The engine writes the status, in one place.
package status

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/fieldownership"
	"mlkeeper.dev/internal/engine/plan"
)

// Conditions that the engine keeps on every kind, with the meaning that kstatus gives them: Reconciling and Stalled are
// present only while True.
const (
	ConditionReady                = "Ready"
	ConditionReconciling          = "Reconciling"
	ConditionStalled              = "Stalled"
	ConditionSuspended            = "Suspended"
	ConditionFieldManagerConflict = "FieldManagerConflict"
)

// Reasons of the engine's own conditions.
const (
	ReasonReady       = "Ready"
	ReasonProgressing = "Progressing"
	ReasonRetrying    = "Retrying"
	ReasonNotReady    = "NotReady"
	ReasonInvalidSpec = "InvalidSpec"
)

// ReasonWaitingForRollout is the reason of Reconciling while an update of running pods waits for the slot of rollouts. What waits stays
// Ready, since nothing of it is worse than it was.
const ReasonWaitingForRollout = "WaitingForRollout"

// CededField is a field of a child that another manager has.
type CededField struct {
	Object plan.Key
	fieldownership.Field
}

// Input is what the conditions follow from.
type Input struct {
	State   controller.ObservedState
	Verdict controller.Verdict
	// Ceded are the fields that other managers have.
	Ceded []CededField
	// Err is an error after which the custom resource is tried again.
	Err error
	// RolloutWaits says what a rollout waits for; empty when none waits.
	RolloutWaits string
}

// SetConditions writes Ready, Reconciling, Stalled and FieldManagerConflict, and takes Suspended away.
func SetConditions(common controller.Common, generation int64, in Input) {
	conditions := common.Conditions
	now := metav1.NewTime(in.State.Now)
	meta.RemoveStatusCondition(conditions, ConditionSuspended)
	ready := metav1.Condition{Type: ConditionReady, ObservedGeneration: generation, Status: metav1.ConditionFalse}
	problem, stalled := mostSevere(in.State.Problems)
	reconciling, progress := "", ""
	switch {
	case problem != nil:
		ready.Reason, ready.Message = problem.Reason, problem.Error()
		if !stalled {
			reconciling = problem.Reason
		}
	case in.State.Ready && !in.Verdict.Hold:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionTrue, ReasonReady, "Everything is as declared."
		if in.RolloutWaits != "" {
			reconciling, progress = ReasonWaitingForRollout, in.RolloutWaits
		}
	case in.Err != nil:
		ready.Reason, ready.Message, reconciling = ReasonRetrying, in.State.Waiting, ReasonRetrying
	default:
		ready.Reason, ready.Message, reconciling = ReasonProgressing, in.State.Waiting, ReasonProgressing
	}
	if problem == nil && in.Verdict.Reason != "" {
		ready.Reason = in.Verdict.Reason
		if in.Verdict.Message != "" && (ready.Status == metav1.ConditionTrue || ready.Message == "") {
			ready.Message = in.Verdict.Message
		}
	}
	if problem == nil && ready.Status != metav1.ConditionTrue && in.Verdict.Progress != "" {
		ready.Message = strings.TrimSuffix(in.Verdict.Progress+", "+ready.Message, ", ")
	}
	if ready.Message == "" {
		ready.Message = "Not everything is as declared yet."
	}
	ready.Message = Bounded(ready.Message)
	if progress == "" {
		progress = ready.Message
	}
	Set(conditions, ready, now)
	SetAbnormalTrue(conditions, ConditionStalled, stalled, ready.Reason, ready.Message, generation, now)
	SetAbnormalTrue(conditions, ConditionReconciling, reconciling != "", reconciling, progress, generation, now)
	SetAbnormalTrue(conditions, ConditionFieldManagerConflict, len(in.Ceded) > 0, "FieldOwnershipCeded",
		ceded(in.Ceded), generation, now)
}

// mostSevere picks the problem to show: a terminal one before one that needs a change elsewhere, and that before a brief one.
func mostSevere(problems []plan.Problem) (worst *plan.Problem, stalled bool) {
	for i := range problems {
		switch one := &problems[i]; {
		case one.Class == plan.Terminal:
			return one, true
		case worst == nil || worst.Brief && !one.Brief:
			worst = one
		}
	}
	return worst, false
}

// SetAbnormalTrue sets an abnormal-true condition: present while it holds, absent otherwise, as kstatus wants it.
func SetAbnormalTrue(
	conditions *[]metav1.Condition, name string, holds bool, reason, message string, generation int64, now metav1.Time,
) {
	if !holds {
		meta.RemoveStatusCondition(conditions, name)
		return
	}
	Set(conditions, metav1.Condition{
		Type: name, Status: metav1.ConditionTrue, Reason: reason, Message: Bounded(message),
		ObservedGeneration: generation,
	}, now)
}

// Set sets a condition; a transition happened now, by the engine's clock.
func Set(conditions *[]metav1.Condition, c metav1.Condition, now metav1.Time) {
	c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	meta.SetStatusCondition(conditions, c)
}

func ceded(fields []CededField) string {
	parts := make([]string, 0, len(fields))
	for _, f := range fields {
		parts = append(parts, fmt.Sprintf("%s of %s is ceded to %s", f.Text, f.Object, f.Manager))
	}
	return strings.Join(parts, "; ") + " after 3 conflicts in 10 min: remove one of the two declarations"
}

// Bounded keeps a message within what a condition may hold. It stays valid UTF-8: what the API server had to mend would
// differ from what is wanted for ever, and be written again in every reconcile.
func Bounded(s string) string {
	const limit = 4096
	return strings.ToValidUTF8(s[:min(len(s), limit)], "")
}
