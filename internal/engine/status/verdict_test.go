package status

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mlkeeper.dev/internal/engine/controller"
)

// state is a status of a table.
type state struct {
	conditions []metav1.Condition
	generation int64
	handled    string
}

func (s state) common() controller.Common {
	return controller.Common{Conditions: &s.conditions, ObservedGeneration: &s.generation, LastHandledReconcileAt: &s.handled}
}

func readyIs(s metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: ConditionReady, Status: s, Reason: reason}
}

func TestVerdictChanged(t *testing.T) {
	stalled := metav1.Condition{Type: ConditionStalled, Status: "True"}
	base := state{conditions: []metav1.Condition{readyIs("False", "a")}, generation: 1}
	for _, c := range []struct {
		name  string
		after state
		want  bool
	}{
		{"nothing", base, false},
		{"another reason", state{conditions: []metav1.Condition{readyIs("False", "b")}, generation: 1}, true},
		{"a condition of the controller", state{conditions: []metav1.Condition{readyIs("False", "a"), {Type: "X", Status: "True"}}, generation: 1}, false},
		{"Ready", state{conditions: []metav1.Condition{readyIs("True", "a")}, generation: 1}, true},
		{"no Ready any more", state{generation: 1}, true},
		{"Stalled", state{conditions: []metav1.Condition{readyIs("False", "a"), stalled}, generation: 1}, true},
		{"Suspended", state{conditions: []metav1.Condition{readyIs("False", "a"), {Type: ConditionSuspended, Status: "True"}}, generation: 1}, true},
		{"a new generation", state{conditions: base.conditions, generation: 2}, true},
		{"an answer to reconcile-at", state{conditions: base.conditions, generation: 1, handled: "now"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := verdictChanged(base.common(), c.after.common()); got != c.want {
				t.Error(got)
			}
			if got := verdictChanged(c.after.common(), base.common()); got != c.want {
				t.Error("and back:", got)
			}
		})
	}
}
