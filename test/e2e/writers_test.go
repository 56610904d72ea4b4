package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// writers are the pods of a namespace that may write to its volume: all that exist, also those that are about to go.
func writers(t *testing.T, c *cluster.Cluster, ns string) []corev1.Pod {
	t.Helper()
	list := &corev1.PodList{}
	if err := c.Client.List(t.Context(), list, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// hold keeps the one pod of a namespace from going until release, as a node does that no longer answers: the containers may
// still run, and nobody knows. A finalizer would not do, since it holds back the object alone and not the end of the containers.
func hold(t *testing.T, c *cluster.Cluster, ns string) (release func()) {
	t.Helper()
	pods := writers(t, c, ns)
	if len(pods) != 1 {
		t.Fatalf("%d pods", len(pods))
	}
	kubelet := func(value string) {
		_, _ = c.TryKubectl("-n", ns, "annotate", "--overwrite", "pod", pods[0].Name, "devcluster.mlkeeper.dev/kubelet"+value)
	}
	release = func() { kubelet("-") }
	t.Cleanup(release)
	kubelet("=off")
	return release
}

// oneWriter waits until the one pod is told to go, and sees that none joins it.
func oneWriter(t *testing.T, c *cluster.Cluster, ns string) {
	t.Helper()
	cluster.Eventually(t, 60*time.Second, func() error {
		pods := writers(t, c, ns)
		if len(pods) > 1 {
			t.Fatalf("%d pods have the volume", len(pods))
		}
		if len(pods) == 0 || pods[0].DeletionTimestamp == nil {
			return fmt.Errorf("the old pod is not told to go")
		}
		return nil
	})
	cluster.Consistently(t, 3*time.Second, func() error {
		if pods := writers(t, c, ns); len(pods) != 1 {
			return fmt.Errorf("%d pods have the volume", len(pods))
		}
		return nil
	})
}

// surge gives a Deployment the strategy that MLKeeper used to declare, as a field manager.
func surge(t *testing.T, c *cluster.Cluster, ns, name, manager string) {
	t.Helper()
	c.Kubectl(t, "-n", ns, "patch", "deployment", name, "--field-manager="+manager, "--type=merge", "-p",
		`{"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1,"maxUnavailable":0}}}}`)
}

// TestTheNextPodWaitsUntilTheVolumeIsFree rolls a Deployment that MLKeeper or somebody else gave another strategy.
func TestTheNextPodWaitsUntilTheVolumeIsFree(t *testing.T) {
	c := cluster.Shared(t)
	for _, manager := range []string{observe.FieldManager, "kubectl-edit"} {
		t.Run(manager, func(t *testing.T) {
			o := start(t, c, harness.Options{})
			ns := c.Namespace(t)
			boundClaim(t, c, ns, "tas-pvc")
			c.Apply(t, migratable, ns)
			condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
			o.Stop()
			surge(t, c, ns, "tas", manager)
			release := hold(t, c, ns)
			start(t, c, harness.Options{})
			c.Kubectl(t, "-n", ns, "patch", "trustyaiservice", "tas", "--type=merge", "-p", `{"spec":{"metrics":{"schedule":"7s"}}}`)
			oneWriter(t, c, ns)
			release()
			condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
			d := c.Get(t, gvkOf("apps/v1", "Deployment"), ns, "tas")
			if strategy, _, _ := unstructured.NestedMap(d.Object, "spec", "strategy"); len(strategy) != 1 || strategy["type"] != "Recreate" {
				t.Errorf("the strategy is %v", strategy)
			}
		})
	}
}

// TestNothingIsWrittenWhileAMigrationCopies sees that the copying pod starts when the writing one is gone, and that the
// status says how long that takes.
func TestNothingIsWrittenWhileAMigrationCopies(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	boundClaim(t, c, ns, "tas-pvc")
	c.Apply(t, migratable, ns)
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
	c.Apply(t, databaseSecret("tas-db-credentials"), ns)
	release := hold(t, c, ns)
	// More pods are for the database; the volume gets one.
	c.Kubectl(t, "-n", ns, "patch", "trustyaiservice", "tas", "--type=merge", "-p", `{"spec":{"replicas":3,"storage":{"format":"DATABASE"}}}`)
	// The interruption is told before the three seconds of oneWriter begin, which it has to last.
	cluster.Eventually(t, 60*time.Second, func() error {
		m := phase(t, c, ns, v1.MigrationCopying)
		if m.InterruptedAt == nil || m.ResumedAt != nil || !strings.Contains(m.Message, "interrupted until") {
			return fmt.Errorf("the status says %+v", m)
		}
		return nil
	})
	oneWriter(t, c, ns)
	release()
	m := phase(t, c, ns, v1.MigrationDone)
	if m.InterruptedAt == nil || m.ResumedAt == nil || m.ResumedAt.Sub(m.InterruptedAt.Time) < 3*time.Second ||
		!strings.Contains(m.Message, "interrupted for "+m.ResumedAt.Sub(m.InterruptedAt.Time).String()) {
		t.Errorf("the status says %+v", m)
	}
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
	cluster.Eventually(t, 60*time.Second, func() error {
		if n := len(podUIDs(t, c, ns)); n != 3 {
			return fmt.Errorf("%d pods on the database", n)
		}
		return nil
	})
}

// TestAStoredServiceOfTwoWritersIsStalledAndRunsOn stores what the schema refuses now with the schema of before.
func TestAStoredServiceOfTwoWritersIsStalledAndRunsOn(t *testing.T) {
	c := cluster.Shared(t)
	o := start(t, c, harness.Options{})
	ns := c.Namespace(t)
	boundClaim(t, c, ns, "tas-pvc")
	c.Apply(t, migratable, ns)
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
	o.Stop()
	pods := podUIDs(t, c, ns)
	const definition = "trustyaiservices.trustyai.opendatahub.io"
	c.Kubectl(t, "patch", "crd", definition, "--type=json", "-p", `[{"op":"remove","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations"},`+
		`{"op":"remove","path":"/spec/versions/1/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations"}]`)
	cluster.Eventually(t, 60*time.Second, func() error {
		_, err := c.TryKubectl("-n", ns, "patch", "trustyaiservice", "tas", "--type=merge", "-p", `{"spec":{"replicas":2}}`)
		return err
	})
	start(t, c, harness.Options{}) // Installs the definition again.
	says(t, c, ns, "tas", "Stalled", metav1.ConditionTrue, "ReplicasShareVolume", "spec.replicas", "DATABASE")
	cluster.Consistently(t, time.Second, func() error { return serving(t, c, ns, pods[0]) })
	// A label is no change of what is refused; a change is, until it mends it.
	c.Kubectl(t, "-n", ns, "label", "trustyaiservice", "tas", "a=b")
	err := c.Client.Patch(t.Context(), c.Get(t, gvk, ns, "tas"), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":3}}`)))
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "at most 1") {
		t.Errorf("three writers: %v", err)
	}
	c.Kubectl(t, "-n", ns, "patch", "trustyaiservice", "tas", "--type=merge", "-p", `{"spec":{"replicas":1}}`)
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
	if cr := get(t, c, ns, "tas"); meta.FindStatusCondition(cr.Status.Conditions, "Stalled") != nil {
		t.Error("it is still Stalled")
	}
	if now := podUIDs(t, c, ns); len(now) != 1 || now[0] != pods[0] {
		t.Errorf("the pods are %v, not %v", now, pods)
	}
}
