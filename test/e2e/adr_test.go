package e2e

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

func TestADRManifestUnchangedBecomesReady(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	volume(t, c, "mypv")
	c.Apply(t, seeds+"trustyai-service.yaml", ns)
	condition(t, c, ns, "trustyai-service-example", "Ready", metav1.ConditionTrue)
}
