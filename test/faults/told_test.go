package faults

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestNoNameOfAChildTellsOfACause has names of children with words of causes in them: a status that only names the child reports no cause.
func TestNoNameOfAChildTellsOfACause(t *testing.T) {
	names := []string{
		"PodDisruptionBudget.policy faults-a/x", "Service faults-a/seldon-webhook-service", "ValidatingWebhookConfiguration seldon-validating-webhook",
		"ConfigMap faults-a/quota", "NetworkPolicy.networking.k8s.io faults-a/forbidden", "poddisruptionbudgets.policy",
	}
	for _, c := range causes {
		for _, name := range names {
			if c.says.reason.MatchString(name) || c.says.remedy != nil && c.says.remedy.MatchString(name) {
				t.Errorf("%s is told by %s", c.name, name)
			}
		}
	}
}

func TestAStatusReportsACause(t *testing.T) {
	const message = `Deployment.apps faults-a/d was refused: ValidatingAdmissionPolicy 'p' denied request; change what the policy objects to, or the policy`
	r := &run{kind: &Kind{}, workload: &Workload{}, world: &World{Namespace: "faults-a"}, plan: Plan{Standing: &Standing{
		Resource: "deployments.apps", Name: "d", Cause: Policy,
	}}}
	for _, c := range []struct{ name, status, reason, message, want string }{
		{"all of it", "False", "AdmissionDenied", message, ""},
		{"while Ready", "True", "AdmissionDenied", message, "nothing"},
		{"another reason", "False", "Progressing", message, "reason"},
		{"another child", "False", "AdmissionDenied", strings.ReplaceAll(message, "/d ", "/e "), "name"},
		{"no remedy", "False", "AdmissionDenied", strings.Split(message, ";")[0], "remedy"},
		{"no cause", "False", "AdmissionDenied", "Deployment.apps faults-a/d was refused", "say"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cr := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
				map[string]any{"type": "Ready", "status": c.status, "reason": c.reason, "message": c.message},
			}}}}
			got := "nothing"
			for _, s := range r.statements(causeOf(Policy), cr) {
				got = r.fault(causeOf(Policy), s)
			}
			if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
