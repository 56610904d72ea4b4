package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// issuing puts another certificate into the Secret mine each second. The returned function ends that, and says how many it were.
func issuing(t *testing.T, c *cluster.Cluster, ns string) (end func() int) {
	ctx, cancel := context.WithCancel(t.Context())
	issued := make(chan int, 1)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "mine"}}
			body := fmt.Appendf(nil, `{"stringData":{"tls.crt":"c%d"}}`, n)
			if err := c.Client.Patch(ctx, secret, client.RawPatch(types.MergePatchType, body)); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		issued <- n
	}()
	return func() int {
		cancel()
		return <-issued
	}
}

// TestACertificateThatIsIssuedInALoopRestartsNothing: the Secret with the certificate of a service holds another one each second. The pods are
// restarted once, for the last one, also where the operator was restarted meanwhile.
func TestACertificateThatIsIssuedInALoopRestartsNothing(t *testing.T) {
	c := cluster.Shared(t)
	u := &unstored{ns: c.Namespace(t)}
	boundClaim(t, c, u.ns, "tas-pvc")
	c.Apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: mine}\nstringData: {tls.crt: c, tls.key: k}\n", u.ns)
	opts := harness.Options{Engine: engine.Options{Namespaces: []string{u.ns}}}
	first := start(t, c, opts)
	c.Apply(t, upstream+"  tls: {secretName: mine}\n", u.ns)
	condition(t, c, u.ns, "tas", "Ready", metav1.ConditionTrue)
	// However long the restart takes, no certificate stands for as long as one has to.
	end := issuing(t, c, u.ns)
	<-time.After(12 * time.Second)
	first.Stop()
	start(t, c, opts)
	<-time.After(12 * time.Second)
	generation, replicaSets, _ := u.look(t, c)
	if issued := end(); generation != 1 || replicaSets != 1 {
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
