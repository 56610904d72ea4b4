package seldon

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// TestWhatIsGeneratedAndCannotBeStored has a SeldonOperator whose Secret somebody else has, and then a quota that refuses it:
// nothing is made that depends on it, and the writes come with growing pauses. Then it comes up with a password that a user
// wrote meanwhile.
func TestWhatIsGeneratedAndCannotBeStored(t *testing.T) {
	const watched, attempts = 30 * time.Second, 8
	c := cluster.Start(t)
	volumes(t, c, 2)
	ns := c.Namespace(t)
	o := start(t, c, repository(t).URL, harness.Options{})
	kubectl := func(args string) string { return c.Kubectl(t, append([]string{"-n", ns}, strings.Fields(args)...)...) }
	asks := 0
	ask := func() {
		asks++
		kubectl(fmt.Sprintf("annotate --overwrite seldonoperator stack %s=%d", keeper.ReconcileAtAnnotation, asks))
	}
	stays := func(why, text string) {
		cluster.Eventually(t, patience, func() error { return reason(get(t, c, ns, "stack"), why, text) })
		before, reconciles := o.Requests.Snapshot(), harness.ReconcilesOf(t, "seldonoperator")
		<-time.After(watched)
		writes := cluster.Sum(o.Requests.Since(before), func(r cluster.Request) bool { return r.Write() && r.Resource == "secrets" })
		reconciles = harness.ReconcilesOf(t, "seldonoperator") - reconciles
		t.Logf("%s: %d writes of Secrets and %d reconciles in %s", why, writes, reconciles, watched)
		if writes > attempts || reconciles > 2*attempts {
			t.Errorf("%d writes of Secrets, %d reconciles:\n%s", writes, reconciles, cluster.Describe(o.Requests.Since(before)))
		}
		if all := kubectl("get deployments,statefulsets,pods -o name"); all != "" {
			t.Errorf("made of what is not stored: %s", all)
		}
	}

	kubectl("create secret generic stack-generated --from-literal=seed=0123456789012345678901234567890123456789")
	apply(t, c, ns, "{enable: {catalogue: true}}")
	stays("ResourceConflict", "stack-generated")

	kubectl("create quota full --hard=count/secrets=0")
	cluster.Eventually(t, patience, func() error {
		if text := kubectl("get quota full -o jsonpath={.status.hard}"); !strings.Contains(text, "secrets") {
			return fmt.Errorf("the quota is not counted yet: %q", text)
		}
		return nil
	})
	kubectl("delete secret stack-generated")
	ask()
	stays("QuotaExceeded", "/stack-generated")

	kubectl("delete quota full")
	kubectl("create secret generic metadata-postgres --from-literal=password=theirs")
	ask()
	// The password alone is not all that pods take from it.
	cluster.Eventually(t, patience, func() error { return reason(get(t, c, ns, "stack"), "CredentialsMissing", "postgres-password") })
	kubectl(`patch secret metadata-postgres -p {"stringData":{"postgres-password":"theirs","dbname":"metadata",` +
		`"host":"postgres","user":"postgres","port":"5432","sslmode":"disable"}}`)
	cluster.Eventually(t, patience, func() error { return ready(get(t, c, ns, "stack")) })
	if got := kubectl("get secret metadata-postgres -o jsonpath={.data.password}"); got != base64.StdEncoding.EncodeToString([]byte("theirs")) {
		t.Errorf("the password of the user has become %q", got)
	}
}
