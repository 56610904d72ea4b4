package seldon

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// TestWhatIsGeneratedAndCannotBeStored has a SeldonOperator whose Secret somebody else has, and one that a quota refuses it:
// nothing is made that depends on it, and the writes come with growing pauses. Then it comes up with a password that a user
// wrote meanwhile.
func TestWhatIsGeneratedAndCannotBeStored(t *testing.T) {
	const watched, attempts = 30 * time.Second, 8
	c := cluster.Start(t, cluster.WithWebhookAdmission(false))
	volumes(t, c, 2)
	for _, one := range []struct {
		reason, text, make, remove string
	}{
		{"NameTaken", "stack-generated", "create secret generic stack-generated --from-literal=seed=0123456789012345678901234567890123456789", "delete secret stack-generated"},
		{"QuotaExceeded", "/stack-generated", "create quota full --hard=count/secrets=0", "delete quota full"},
	} {
		t.Run(one.reason, func(t *testing.T) {
			ns := c.Namespace(t)
			o := start(t, c, repository(t).URL, harness.Options{Engine: engine.Options{Namespaces: []string{ns}}})
			kubectl := func(args string) string { return c.Kubectl(t, append([]string{"-n", ns}, strings.Fields(args)...)...) }
			kubectl(one.make)
			if strings.Contains(one.make, "quota") {
				cluster.Eventually(t, patience, func() error {
					if text := kubectl("get quota full -o jsonpath={.status.hard}"); !strings.Contains(text, "secrets") {
						return fmt.Errorf("the quota is not counted yet: %q", text)
					}
					return nil
				})
			}
			apply(t, c, ns, "{enable: {catalogue: true}}")
			cluster.Eventually(t, patience, func() error { return reason(get(t, c, ns, "stack"), one.reason, one.text) })
			before, reconciles := o.Requests.Snapshot(), harness.ReconcilesOf(t, "seldonoperator")
			<-time.After(watched)
			writes := cluster.Sum(o.Requests.Since(before), func(r cluster.Request) bool { return r.Write() && r.Resource == "secrets" })
			reconciles = harness.ReconcilesOf(t, "seldonoperator") - reconciles
			t.Logf("%s: %d writes of Secrets and %d reconciles in %s", one.reason, writes, reconciles, watched)
			if writes > attempts || reconciles > 2*attempts {
				t.Errorf("%d writes of Secrets, %d reconciles:\n%s", writes, reconciles, cluster.Describe(o.Requests.Since(before)))
			}
			if err := c.Gone(t, deployments, ns, "seldon-controller-manager"); err != nil {
				t.Error(err)
			}
			if all := kubectl("get deployments,statefulsets,pods -o name"); all != "" {
				t.Errorf("made of what is not stored: %s", all)
			}
			kubectl(one.remove)
			kubectl("create secret generic metadata-postgres --from-literal=password=theirs")
			kubectl("annotate seldonoperator stack " + keeper.ReconcileAtAnnotation + "=now")
			cluster.Eventually(t, patience, func() error { return ready(get(t, c, ns, "stack")) })
			if got := kubectl("get secret metadata-postgres -o jsonpath={.data.password}"); got != base64.StdEncoding.EncodeToString([]byte("theirs")) {
				t.Errorf("the password of the user has become %q", got)
			}
		})
	}
}
