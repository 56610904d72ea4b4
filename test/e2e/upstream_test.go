package e2e

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
		{"rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", fixture.BindingOf(ns, "tas")},
		{"v1", "Service", ns, "tas-tls"},
		{"v1", "ConfigMap", ns, "tas-kube-rbac-proxy-config"},
		{"v1", "PersistentVolumeClaim", ns, "tas-pvc"},
		{"apps/v1", "Deployment", ns, "tas"},
		{"v1", "Service", ns, "tas"},
		{"monitoring.coreos.com/v1", "ServiceMonitor", ns, "tas"},
		{"route.openshift.io/v1", "Route", ns, "tas"},
		{"networking.k8s.io/v1", "NetworkPolicy", ns, "tas-secured"},
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
		if c.Get(t, gvkOf("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"), "", fixture.BindingOf(ns, "tas")) != nil {
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

// TestASecuredServiceIsClosedBeforeItsPodsStart: no pod of a Secured service runs before the NetworkPolicy that closes it, which is restored
// when somebody deletes or widens it, and goes when the service becomes Plain.
func TestASecuredServiceIsClosedBeforeItsPodsStart(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	boundClaim(t, c, ns, "tas-pvc")
	c.Apply(t, upstream, ns)
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
	policyOf := func() *networkingv1.NetworkPolicy {
		policy := &networkingv1.NetworkPolicy{}
		if u := c.Get(t, gvkOf("networking.k8s.io/v1", "NetworkPolicy"), ns, "tas-secured"); u == nil {
			return nil
		} else if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, policy); err != nil {
			t.Fatal(err)
		}
		return policy
	}
	before := policyOf()
	deployment := c.Get(t, gvkOf("apps/v1", "Deployment"), ns, "tas")
	if created := deployment.GetCreationTimestamp(); created.Before(&before.CreationTimestamp) {
		t.Errorf("the Deployment is of %s, and the NetworkPolicy of %s", created, before.CreationTimestamp)
	}
	pods := &corev1.PodList{}
	if err := c.Client.List(t.Context(), pods, client.InNamespace(ns), client.MatchingLabels(before.Spec.PodSelector.MatchLabels)); err != nil || len(pods.Items) != 1 {
		t.Errorf("the policy selects %d pods: %v", len(pods.Items), err)
	}
	restored := func() error {
		if now := policyOf(); now == nil || !reflect.DeepEqual(now.Spec, before.Spec) {
			return fmt.Errorf("the NetworkPolicy is %+v", now)
		}
		return nil
	}
	c.Kubectl(t, "-n", ns, "patch", "networkpolicy", "tas-secured", "--type=json", "-p", `[{"op":"replace","path":"/spec/ingress","value":[{}]}]`)
	cluster.Eventually(t, 30*time.Second, restored)
	c.Kubectl(t, "-n", ns, "delete", "networkpolicy", "tas-secured")
	cluster.Eventually(t, 30*time.Second, restored)
	c.Kubectl(t, "-n", ns, "patch", "trustyaiservice", "tas", "--type=merge", "-p", `{"spec":{"exposure":"Plain"}}`)
	cluster.Eventually(t, 60*time.Second, func() error {
		if policyOf() != nil {
			return fmt.Errorf("a Plain service is closed")
		}
		return nil
	})
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
	says(t, c, ns, "tas", "Ready", metav1.ConditionFalse, "tas-db-credentials")
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
