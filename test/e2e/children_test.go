package e2e

import (
	"testing"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

// TestEveryChildIsRepairedAndGoes: each kind of child of a service is made, comes back as it was when somebody changes or deletes it, and
// goes with the field that asks for it. `make rbac-minimal` knows by this test that the rights over each kind are used.
func TestEveryChildIsRepairedAndGoes(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	s := fixture.Create(t, c, fixture.Secured)
	s.AwaitReady(t, c)
	change := func(body string) {
		t.Helper()
		c.Kubectl(t, "-n", s.Namespace, "patch", "trustyaiservice", s.Name, "--type=merge", "-p", body)
	}
	change(`{"spec":{"podDisruptionBudget":{"minAvailable":1},"ingress":{"host":"tas.example.com"},"httpRoute":{"host":"tas.example.com","gateway":{"name":"public"}}}}`)
	optional := []string{"backendtlspolicies", "httproutes", "ingresses", "poddisruptionbudgets"}
	secured := []string{"clusterrolebindings", "networkpolicies", "routes", "secrets", "serviceaccounts", "servicemonitors"}
	fixture.AwaitMarked(t, c, s.Namespace, append(optional, secured...)...)
	s.AwaitReady(t, c)
	fixture.Disturb(t, c, s.Namespace)
	s.AwaitReady(t, c)
	change(`{"spec":{"podDisruptionBudget":null,"ingress":null,"httpRoute":null,"exposure":"Plain"}}`)
	fixture.AwaitGone(t, c, s.Namespace, append(optional, "clusterrolebindings", "networkpolicies", "secrets")...)
	s.AwaitReady(t, c)
}
