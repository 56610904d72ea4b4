package engine

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mlkeeper.dev/internal/engine/contest"
	"mlkeeper.dev/internal/engine/controller"
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

// judgement is what the conditions follow from.
type judgement struct {
	seen      controller.Seen
	verdict   controller.Verdict
	blind     bool
	yielded   []contest.Field
	transient error
	// held says what a rollout waits for; empty when none waits.
	held string
}

// setConditions writes Ready, Reconciling, Stalled and FieldManagerConflict, and takes Suspended away.
func setConditions(common controller.Common, generation int64, j judgement) {
	conditions := common.Conditions
	now := metav1.NewTime(j.seen.Now)
	meta.RemoveStatusCondition(conditions, ConditionSuspended)
	ready := metav1.Condition{Type: ConditionReady, ObservedGeneration: generation, Status: metav1.ConditionFalse}
	problem, stalled := worst(j.seen.Problems)
	reconciling, progress := "", ""
	switch {
	case problem != nil:
		ready.Reason, ready.Message = problem.Reason, problem.Error()
		if !stalled {
			reconciling = problem.Reason
		}
	case j.seen.Ready && !j.verdict.Hold:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionTrue, ReasonReady, "Everything is as declared."
		if j.held != "" {
			reconciling, progress = reasonRollout, j.held
		}
	case j.transient != nil:
		ready.Reason, ready.Message, reconciling = ReasonRetrying, j.seen.Waiting, ReasonRetrying
	default:
		ready.Reason, ready.Message, reconciling = ReasonProgressing, j.seen.Waiting, ReasonProgressing
	}
	if problem == nil && j.verdict.Reason != "" {
		ready.Reason = j.verdict.Reason
		if j.verdict.Message != "" && (ready.Status == metav1.ConditionTrue || ready.Message == "") {
			ready.Message = j.verdict.Message
		}
	}
	if problem == nil && ready.Status != metav1.ConditionTrue && j.verdict.Progress != "" {
		ready.Message = strings.TrimSuffix(j.verdict.Progress+", "+ready.Message, ", ")
	}
	if ready.Message == "" {
		ready.Message = "Not everything is as declared yet."
	}
	ready.Message = bounded(ready.Message)
	if progress == "" {
		progress = ready.Message
	}
	setCondition(conditions, ready, now)
	mark(conditions, ConditionStalled, stalled, ready.Reason, ready.Message, generation, now)
	mark(conditions, ConditionReconciling, reconciling != "", reconciling, progress, generation, now)
	mark(conditions, ConditionFieldManagerConflict, len(j.yielded) > 0, "FieldOwnershipCeded",
		contested(j.yielded), generation, now)
}

// worst picks the problem to show: a terminal one before one that is waited for, and that before one that passes by itself.
func worst(problems []plan.Problem) (worst *plan.Problem, stalled bool) {
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

// mark keeps an abnormal-true condition: present while it holds, absent otherwise, as kstatus wants it.
func mark(
	conditions *[]metav1.Condition, name string, holds bool, reason, message string, generation int64, now metav1.Time,
) {
	if !holds {
		meta.RemoveStatusCondition(conditions, name)
		return
	}
	setCondition(conditions, metav1.Condition{
		Type: name, Status: metav1.ConditionTrue, Reason: reason, Message: bounded(message),
		ObservedGeneration: generation,
	}, now)
}

// setCondition sets a condition; a transition happened now, by the engine's clock.
func setCondition(conditions *[]metav1.Condition, c metav1.Condition, now metav1.Time) {
	c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	meta.SetStatusCondition(conditions, c)
}

func contested(fields []contest.Field) string {
	parts := make([]string, 0, len(fields))
	for _, f := range fields {
		parts = append(parts, fmt.Sprintf("%s is ceded to %s", f.Text, f.Manager))
	}
	return strings.Join(parts, "; ") + " after 3 conflicts in 10 min: remove one of the two declarations"
}

// bounded keeps a message within what a condition may hold. It stays valid UTF-8: what the API server had to mend would
// differ from what is wanted for ever, and be written again in every pass.
func bounded(s string) string {
	const limit = 4096
	return strings.ToValidUTF8(s[:min(len(s), limit)], "")
}
