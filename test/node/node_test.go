//go:build realnode

package node

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"mlkeeper.dev/test/cluster"
)

// patience bounds each wait: pods start on two cores that others use, too.
const patience = 2 * time.Minute

// TestOperatorOnARealNode runs the operator as users do, and what it keeps beside it.
func TestOperatorOnARealNode(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	began := time.Now()
	since := func() time.Duration { return time.Since(began).Round(100 * time.Millisecond) }
	c := cluster.Start(t, cluster.WithFlags("--node=real"),
		cluster.WithCRDs("route", "servicemonitor", "inferenceservice"))
	t.Logf("%s: the node is ready", since())
	explainFailures(t, c)
	install(t, c, loadImages(t, c))
	c.Kubectl(t, "wait", "-n", operatorNamespace, "deployment/"+operatorDeployment,
		"--for=condition=Available", "--timeout="+patience.String())
	t.Logf("%s: the operator's pod is ready", since())

	// One after the other, since the ADR's manifest names a PersistentVolume, which is the cluster's.
	t.Run("TheSeedsManifest", func(t *testing.T) { seedsManifest(t, c) })
	t.Logf("%s: the seed's manifest is done", since())
	t.Run("Secured", func(t *testing.T) { secured(t, c) })
	t.Logf("%s: the Secured service is done", since())
	t.Run("TfservRollout", func(t *testing.T) { tfservRollout(t, c) })
	t.Logf("%s: the rollout of a Tfserv is done", since())

	restarts := c.Kubectl(t, "get", "pods", "-n", operatorNamespace, "-o", "jsonpath={.items[*].status.containerStatuses[*].restartCount}")
	if restarts != "0" {
		t.Errorf("the operator was restarted: %s", restarts)
	}
	if err := c.Granted(operatorDeployment); err != nil {
		t.Error(err)
	}
}

// explainFailures prints what one would look at first, if the test fails.
func explainFailures(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, args := range [][]string{
			{"get", "pods", "-A", "-o", "wide"},
			{"get", "trustyaiservices,tfservs", "-A", "-o", "yaml"},
			{"get", "events", "-A", "--sort-by=.lastTimestamp"},
			{"logs", "-n", operatorNamespace, "deployment/" + operatorDeployment, "--tail=50"},
		} {
			out, err := c.TryKubectl(args...)
			t.Logf("kubectl %v (%v)\n%s", args, err, out)
		}
	})
}
