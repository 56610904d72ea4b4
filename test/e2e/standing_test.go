package e2e

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// TestACertificateThatIsIssuedInALoopRestartsNothing: the Secret with the certificate of a service holds another one each second. The pods are
// restarted once, for the last one, also where the operator was restarted meanwhile.
func TestACertificateThatIsIssuedInALoopRestartsNothing(t *testing.T) {
	c := cluster.Shared(t)
	u := &unstored{ns: c.Namespace(t)}
	boundClaim(t, c, u.ns, "tas-pvc")
	issued := 0
	issue := func() {
		issued++
		c.Apply(t, fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: mine}\nstringData: {tls.crt: c%d, tls.key: k}\n", issued), u.ns)
	}
	issue()
	opts := harness.Options{Engine: engine.Options{Namespaces: []string{u.ns}}}
	first := start(t, c, opts)
	c.Apply(t, upstream+"  tls: {secretName: mine}\n", u.ns)
	condition(t, c, u.ns, "tas", "Ready", metav1.ConditionTrue)
	for i := range 24 {
		issue()
		<-time.After(time.Second)
		if i == 12 {
			first.Stop()
			start(t, c, opts)
		}
	}
	if generation, replicaSets, _ := u.look(t, c); generation != 1 || replicaSets != 1 {
		t.Errorf("generation %d and %d ReplicaSets, after %d certificates", generation, replicaSets, issued)
	}
	condition(t, c, u.ns, "tas", "Ready", metav1.ConditionTrue)
	cluster.Eventually(t, 30*time.Second, func() error {
		if _, replicaSets, _ := u.look(t, c); replicaSets != 2 {
			return fmt.Errorf("%d ReplicaSets", replicaSets)
		}
		return nil
	})
	condition(t, c, u.ns, "tas", "Ready", metav1.ConditionTrue)
	if generation, _, _ := u.look(t, c); generation != 2 {
		t.Errorf("generation %d at the end", generation)
	}
}
