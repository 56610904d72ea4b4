package invariants

import (
	"encoding/json"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// illegal returns how the conditions of an object break the rules of kstatus and the contribution guidelines: Reconciling and Stalled
// are there only while True and never together, Ready says the opposite of both, and every condition tells the
// generation it was made for.
func illegal(u *unstructured.Unstructured) []string {
	var status struct {
		Conditions         []metav1.Condition `json:"conditions"`
		ObservedGeneration int64              `json:"observedGeneration"`
	}
	raw, err := json.Marshal(u.Object["status"])
	if err == nil {
		err = json.Unmarshal(raw, &status)
	}
	if err != nil {
		return []string{err.Error()}
	}
	if len(status.Conditions) == 0 {
		return nil
	}
	var out []string
	complain := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	seen := map[string]bool{}
	for _, c := range status.Conditions {
		if seen[c.Type] {
			complain("condition %s is there twice", c.Type)
		}
		seen[c.Type] = true
		if c.Reason == "" || c.Message == "" || c.LastTransitionTime.IsZero() {
			complain("condition %s lacks reason, message or time: %+v", c.Type, c)
		}
		if c.ObservedGeneration <= 0 || c.ObservedGeneration > u.GetGeneration() {
			complain("condition %s is of generation %d of %d", c.Type, c.ObservedGeneration, u.GetGeneration())
		}
		if c.Type != "Ready" && c.Status != metav1.ConditionTrue {
			complain("condition %s is abnormal-true, and there with %s", c.Type, c.Status)
		}
	}
	is := func(name string) bool { return meta.IsStatusConditionTrue(status.Conditions, name) }
	ready := meta.FindStatusCondition(status.Conditions, "Ready")
	switch {
	case is("Reconciling") && is("Stalled"):
		complain("both Reconciling and Stalled")
	case ready == nil && !is("Suspended"):
		complain("no condition Ready")
	case ready != nil && ready.Status == metav1.ConditionTrue && (is("Reconciling") || is("Stalled")):
		complain("Ready, and Reconciling or Stalled")
	case ready != nil && ready.Status != metav1.ConditionTrue && !is("Reconciling") && !is("Stalled") && !is("Suspended"):
		complain("neither Ready nor Reconciling nor Stalled")
	}
	if status.ObservedGeneration > u.GetGeneration() {
		complain("observedGeneration %d of %d", status.ObservedGeneration, u.GetGeneration())
	}
	return out
}

func TestIllegalFindsWhatBreaksTheRules(t *testing.T) {
	condition := func(kind, status string, generation int64) any {
		return map[string]any{
			"type": kind, "status": status, "reason": "R", "message": "m", "observedGeneration": generation,
			"lastTransitionTime": "2026-01-01T00:00:00Z",
		}
	}
	for name, c := range map[string]struct {
		conditions []any
		legal      bool
	}{
		"ready":            {[]any{condition("Ready", "True", 2)}, true},
		"on its way":       {[]any{condition("Ready", "False", 2), condition("Reconciling", "True", 2)}, true},
		"stalled":          {[]any{condition("Ready", "False", 2), condition("Stalled", "True", 2)}, true},
		"neither":          {[]any{condition("Ready", "False", 2)}, false},
		"both":             {[]any{condition("Ready", "False", 2), condition("Stalled", "True", 2), condition("Reconciling", "True", 2)}, false},
		"ready and not":    {[]any{condition("Ready", "True", 2), condition("Reconciling", "True", 2)}, false},
		"no generation":    {[]any{condition("Ready", "True", 0)}, false},
		"later generation": {[]any{condition("Ready", "True", 3)}, false},
		"stalled false":    {[]any{condition("Ready", "True", 2), condition("Stalled", "False", 2)}, false},
		"twice":            {[]any{condition("Ready", "True", 2), condition("Ready", "True", 2)}, false},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": c.conditions}}}
		u.SetGeneration(2)
		if got := illegal(u); (len(got) == 0) != c.legal {
			t.Errorf("%s: %v", name, got)
		}
	}
}
