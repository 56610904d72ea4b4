package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/internal/trustyai"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// TestOperatorUpgradeRollsOneNamespaceAtATime holds the rollout of one namespace by an image that no pod gets ready
// with, and sees that the other namespace waits, stays Ready and says for whom.
func TestOperatorUpgradeRollsOneNamespaceAtATime(t *testing.T) {
	c := cluster.Shared(t)
	namespaces := []string{c.Namespace(t), c.Namespace(t)}
	// What other tests leave behind is torn down meanwhile, and would take its turn too.
	opts := harness.Options{Engine: engine.Options{Namespaces: namespaces}}
	first := start(t, c, opts)
	for _, ns := range namespaces {
		volume(t, c, pvName(ns))
		c.Apply(t, adr(pvName(ns)), ns)
		condition(t, c, ns, example, "Ready", metav1.ConditionTrue)
	}
	first.Stop()
	c.Kubectl(t, "cordon", "--selector", "!none")
	uncordoned := false
	uncordon := func() {
		if !uncordoned {
			uncordoned = true
			c.Kubectl(t, "uncordon", "--selector", "!none")
		}
	}
	t.Cleanup(uncordon)

	opts.Verbose = testing.Verbose()
	harness.Start(t, c, opts,
		trustyAI(trustyai.Settings{Image: "example.com/trustyai-service:v0.27.0", ProxyImage: trustyai.DefaultProxyImage}))
	var rolling, waiting string
	cluster.Eventually(t, 30*time.Second, func() error {
		for i, ns := range namespaces {
			cr := get(t, c, ns, example)
			held := meta.FindStatusCondition(cr.Status.Conditions, "Reconciling")
			if held != nil && held.Reason == "Rollout" {
				rolling, waiting = namespaces[1-i], ns
				return nil
			}
		}
		return fmt.Errorf("nobody waits for the rollout of the other namespace")
	})
	cr := get(t, c, waiting, example)
	held := meta.FindStatusCondition(cr.Status.Conditions, "Reconciling")
	if !strings.Contains(held.Message, rolling) {
		t.Errorf("the message does not name the namespace that rolls: %s", held.Message)
	}
	if !meta.IsStatusConditionTrue(cr.Status.Conditions, "Ready") {
		t.Error("a service whose pods still run as before is not Ready")
	}
	if image(t, c, rolling) == image(t, c, waiting) {
		t.Error("both namespaces have the same image")
	}
	uncordon()
	for _, ns := range namespaces {
		cluster.Eventually(t, 60*time.Second, func() error {
			if got := image(t, c, ns); got != "example.com/trustyai-service:v0.27.0" {
				return fmt.Errorf("namespace %s still has %s", ns, got)
			}
			return nil
		})
		condition(t, c, ns, example, "Ready", metav1.ConditionTrue)
	}
}

// image is the image of the service's Deployment.
func image(t *testing.T, c *cluster.Cluster, ns string) string {
	t.Helper()
	d := c.Get(t, gvkOf("apps/v1", "Deployment"), ns, "trustyai-service")
	containers, _, err := unstructured.NestedSlice(d.Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) == 0 {
		t.Fatalf("the Deployment has no container: %v", err)
	}
	return fmt.Sprint(containers[0].(map[string]any)["image"]) //nolint:forcetypeassert // The API server's own schema.
}
