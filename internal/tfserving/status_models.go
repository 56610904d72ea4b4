package tfserving

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
)

// verdict words Ready: with what pods say that are not ready, and with a model that is not available, so that kubectl get does not show
// a Ready without a reason beside models that are missing.
func (v *view) verdict() controller.Verdict {
	if f := v.facts.Failure; f != nil && !v.seen.Ready {
		return controller.Verdict{Reason: f.Reason, Progress: f.Message, Failed: true}
	}
	c := meta.FindStatusCondition(v.cr.Status.Conditions, ConditionModelsAvailable)
	if v.seen.Ready && c != nil && c.Status == metav1.ConditionFalse {
		return controller.Verdict{Reason: c.Reason, Message: "Every pod is as declared, but not every model is available: " + c.Message}
	}
	return controller.Verdict{}
}

// failure is what pods say that are not ready.
func (v *view) failure() string {
	if f := v.facts.Failure; f != nil {
		return f.Reason + ": " + f.Message
	}
	return "Look at the pods' events and logs."
}

// models says what the servers said of their models.
func (v *view) models() {
	status := &v.cr.Status
	answer, before := v.facts.Answer, slices.Clone(status.Models)
	ready := status.ReadyReplicas > 0
	defer func() { v.times(before) }()
	switch {
	case ready && v.facts.Serving.Valid() && len(v.facts.Serving.Models()) == 0:
		status.Models, status.ModelsAvailable = nil, "0/0"
		v.set(ConditionModelsAvailable, metav1.ConditionTrue, reasonModelsAvailable, "The config declares no model.")
	case ready && answer == nil && len(status.Models) > 0:
		// What was said last stands until somebody says otherwise.
		if c := meta.FindStatusCondition(status.Conditions, ConditionModelsAvailable); c != nil {
			v.set(ConditionModelsAvailable, c.Status, c.Reason, c.Message)
		}
	case !ready || answer == nil || answer.Answered == 0:
		status.Models, status.ModelsAvailable = nil, ""
		v.set(ConditionModelsAvailable, metav1.ConditionUnknown, reasonEndpointUnreachable, v.silence())
	default:
		// The servers may have been asked before the config changed.
		total := answer.Asked
		status.Models, status.ModelsAvailable = slices.Clone(answer.Models), fmt.Sprintf("%d/%d", answer.Available, total)
		if answer.Available == total {
			v.set(ConditionModelsAvailable, metav1.ConditionTrue, reasonModelsAvailable,
				fmt.Sprintf("%s serve %s.", counted(answer.Answered, "server"), counted(total, "model"))+answer.scope())
			return
		}
		v.set(ConditionModelsAvailable, metav1.ConditionFalse, reasonModelsUnavailable, unavailable(answer.Models)+answer.scope())
	}
}

// silence says why nobody answers.
func (v *view) silence() string {
	rollout, there := v.rollout()
	switch {
	case paused(v.cr):
		return "spec.replicas is 0, so that no model server runs."
	case there && rollout.Desired == 0 && v.cr.Spec.Autoscaling != nil:
		return "The autoscaler has scaled to zero, so that no model server runs."
	case there && rollout.Desired == 0:
		return "The Deployment is scaled to zero, so that no model server runs."
	case rollout.Ready == 0:
		return "No pod is ready, so that no model server is asked."
	}
	return "No model server answers at its REST endpoint."
}

// times sets when each version began to be as it is, when any of them changed, and when the servers were asked. Without a change nothing
// is written; only who asks for an interval of his own is told of every answer.
func (v *view) times(before []v1alpha1.ModelStatus) {
	status := &v.cr.Status
	if len(status.Models) == 0 {
		status.ModelsChangedAt, status.ModelsAskedAt = nil, nil
		return
	}
	now := &metav1.Time{Time: v.seen.Now.Truncate(time.Second)}
	same := len(status.Models) == len(before)
	for i := range status.Models {
		m := &status.Models[i]
		m.LastChange = now
		at := slices.IndexFunc(before, func(b v1alpha1.ModelStatus) bool { return b.Name == m.Name && b.Version == m.Version })
		if at >= 0 && before[at].State == m.State && before[at].Error == m.Error && before[at].LastChange != nil {
			m.LastChange = before[at].LastChange
		}
		same = same && at == i && m.LastChange != now
	}
	if !same {
		status.ModelsChangedAt = now
	}
	answer := v.facts.Answer
	if answer != nil && !answer.At.IsZero() && (!same || v.cr.Spec.ModelStatusSeconds != nil || status.ModelsAskedAt == nil) {
		status.ModelsAskedAt = &metav1.Time{Time: answer.At.Truncate(time.Second)}
	}
}

// unavailable names the models that are not available everywhere, with what the servers say.
func unavailable(models []v1alpha1.ModelStatus) string {
	serves := map[string]bool{}
	for _, m := range models {
		serves[m.Name] = serves[m.Name] || m.State == stateAvailable
	}
	var parts []string
	for _, m := range models {
		if serves[m.Name] {
			continue
		}
		part := fmt.Sprintf("%s is %s", m.Name, m.State)
		if m.Version != "" {
			part = fmt.Sprintf("%s version %s is %s", m.Name, m.Version, m.State)
		}
		if m.Error != "" {
			part += " (" + m.Error + ")"
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return "Not every server has every model available."
	}
	return strings.Join(parts, "; ") + ". Look at the path of the model and at the credentials."
}
