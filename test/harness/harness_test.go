package harness_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

func TestMain(m *testing.M) { cluster.Main(m) }

const waiting = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: waiting}
spec:
  selector: {matchLabels: {app: waiting}}
  template:
    metadata: {labels: {app: waiting}}
    spec:
      containers: [{name: app, image: app:1, envFrom: [{secretRef: {name: late}}]}]
`

// TestATestEndsWhenItsOperatorIsDone: a test may end while its operator still makes what pods wait for. It is stopped after
// that.
func TestATestEndsWhenItsOperatorIsDone(t *testing.T) {
	c := cluster.Shared(t)
	c.InstallCRDs(t)
	ns := c.Namespace(t)
	end := make(chan struct{})
	add := func(mgr manager.Manager, _ *engine.Engine) error {
		return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
			<-end
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(time.Second):
			}
			// The operator of this controller may not write Secrets; who writes does not matter here.
			return c.Client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "late"}})
		}))
	}
	harness.Start(t, c, harness.Options{Add: add}, fixture.Controller())
	c.Apply(t, waiting, ns)
	close(end)
}
