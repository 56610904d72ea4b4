package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

// upstream is a manifest as users of the upstream operator have it.
const upstream = `
apiVersion: trustyai.opendatahub.io/v1
kind: TrustyAIService
metadata: {name: tas}
spec:
  storage: {format: PVC, folder: /inputs, size: 1Gi}
  data: {filename: data.csv, format: CSV}
  metrics: {schedule: 5s, batchSize: 1000}
`

// boundClaim makes a PersistentVolume that the claim of upstream's shape, which names no volume and no class, binds.
func boundClaim(t *testing.T, c *cluster.Cluster, ns, claim string) {
	t.Helper()
	c.Apply(t, fixture.VolumeFor(pvName(ns), ns, claim))
	t.Cleanup(func() { _, _ = c.TryKubectl("delete", "pv", pvName(ns), "--wait=false", "--ignore-not-found") })
}

func TestUpstreamShapeIsSecuredAndLeavesNothingBehind(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	boundClaim(t, c, ns, "tas-pvc")
	c.Apply(t, upstream, ns)
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
	for _, want := range []struct{ apiVersion, kind, ns, name string }{
		{"v1", "ServiceAccount", ns, "tas-proxy"},
		{"rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", "tas-" + ns + "-proxy-rolebinding"},
		{"v1", "Service", ns, "tas-tls"},
		{"v1", "ConfigMap", ns, "tas-kube-rbac-proxy-config"},
		{"v1", "PersistentVolumeClaim", ns, "tas-pvc"},
		{"apps/v1", "Deployment", ns, "tas"},
		{"v1", "Service", ns, "tas"},
		{"monitoring.coreos.com/v1", "ServiceMonitor", ns, "tas"},
		{"route.openshift.io/v1", "Route", ns, "tas"},
		{"v1", "Secret", ns, "tas-tls"},
		{"v1", "Secret", ns, "tas-internal"},
	} {
		if c.Get(t, gvkOf(want.apiVersion, want.kind), want.ns, want.name) == nil {
			t.Errorf("%s %s is missing", want.kind, want.name)
		}
	}
	route := c.Get(t, gvkOf("route.openshift.io/v1", "Route"), ns, "tas")
	if how, _, _ := unstructured.NestedString(route.Object, "spec", "tls", "termination"); how != "reencrypt" {
		t.Errorf("the Route terminates with %q", how)
	}
	if out := c.Kubectl(t, "get", "inventories", "-o", "name"); !strings.Contains(out, "trustyaiservice") {
		t.Errorf("no Inventory holds the children of a Secured service: %s", out)
	}
	c.Kubectl(t, "-n", ns, "delete", "trustyaiservice", "tas")
	cluster.Eventually(t, 60*time.Second, func() error { // Defect 1: the ClusterRoleBinding leaked.
		if c.Get(t, gvkOf("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"), "", "tas-"+ns+"-proxy-rolebinding") != nil {
			return fmt.Errorf("the ClusterRoleBinding is still there")
		}
		if c.Get(t, gvkOf("apps/v1", "Deployment"), ns, "tas") != nil {
			return fmt.Errorf("the Deployment is still there")
		}
		return nil
	})
	if c.Get(t, gvkOf("v1", "PersistentVolumeClaim"), ns, "tas-pvc") == nil {
		t.Error("the claim is not kept, though retentionPolicy is Retain")
	}
}

func TestDatabaseWaitsForItsSecretByName(t *testing.T) { // Defect 10: DATABASE with the default Secret never worked.
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	c.Apply(t, `
apiVersion: trustyai.opendatahub.io/v1
kind: TrustyAIService
metadata: {name: tas}
spec:
  exposure: Plain
  storage: {format: DATABASE}
  metrics: {schedule: 5s}
`, ns)
	got := condition(t, c, ns, "tas", "Ready", metav1.ConditionFalse)
	if !strings.Contains(got.Message, "tas-db-credentials") {
		t.Errorf("the message does not name the Secret: %s: %s", got.Reason, got.Message)
	}
	c.Apply(t, `
apiVersion: v1
kind: Secret
metadata: {name: tas-db-credentials}
stringData: {databaseKind: mariadb, databaseUsername: u, databasePassword: hunter2, databaseService: db, databasePort: "3306"}
`, ns)
	cluster.Eventually(t, 30*time.Second, func() error {
		got := condition(t, c, ns, "tas", "Ready", metav1.ConditionFalse)
		if !strings.Contains(got.Message, "databaseName") || strings.Contains(got.Message, "hunter2") {
			return fmt.Errorf("the message is %q", got.Message)
		}
		return nil
	})
	c.Apply(t, databaseSecret("tas-db-credentials"), ns)
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
}

func databaseSecret(name string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: %s}
stringData:
  databaseKind: mariadb
  databaseUsername: u
  databasePassword: hunter2
  databaseService: db
  databasePort: "3306"
  databaseName: trustyai
  databaseGeneration: update
`, name)
}
