package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/trustyai"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

const migratable = `
apiVersion: trustyai.opendatahub.io/v1
kind: TrustyAIService
metadata: {name: tas}
spec:
  exposure: Plain
  storage: {format: PVC, folder: /inputs, size: 1Gi}
  data: {filename: data.csv, format: CSV}
  metrics: {schedule: 5s}
`

// phase waits until the migration is in a phase.
func phase(t *testing.T, c *cluster.Cluster, ns string, want v1.MigrationPhase) *v1.MigrationStatus {
	t.Helper()
	var got *v1.MigrationStatus
	cluster.Eventually(t, 60*time.Second, func() error {
		st := get(t, c, ns, "tas").Status
		if got = st.Migration; got == nil || got.Phase != want {
			return fmt.Errorf("the migration is %+v, not %s; %+v", got, want, st.Conditions)
		}
		return nil
	})
	return got
}

// cordon keeps new pods pending, so that none becomes ready, until uncordon.
func cordon(t *testing.T, c *cluster.Cluster) (uncordon func()) {
	t.Helper()
	nodes := strings.Fields(c.Kubectl(t, "get", "nodes", "-o", "name"))
	uncordon = func() {
		for _, node := range nodes {
			c.Kubectl(t, "uncordon", strings.TrimPrefix(node, "node/"))
		}
	}
	t.Cleanup(uncordon)
	for _, node := range nodes {
		c.Kubectl(t, "cordon", strings.TrimPrefix(node, "node/"))
	}
	return uncordon
}

// serving says whether a pod is ready and not about to go.
func serving(t *testing.T, c *cluster.Cluster, ns string, uid types.UID) error {
	t.Helper()
	list := &corev1.PodList{}
	if err := c.Client.List(t.Context(), list, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.UID != uid || pod.DeletionTimestamp != nil {
			continue
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
	}
	return fmt.Errorf("pod %s does not serve", uid)
}

// template is the pod template of the Deployment as JSON, without the digest of the Secret, whose key is the UID of the
// custom resource.
func template(t *testing.T, c *cluster.Cluster, ns string) string {
	t.Helper()
	d := c.Get(t, gvkOf("apps/v1", "Deployment"), ns, "tas")
	content, _, _ := unstructured.NestedMap(d.Object, "spec", "template")
	unstructured.RemoveNestedField(content, "metadata", "annotations", "trustyai.opendatahub.io/credentials-digest")
	raw, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func toDatabase(t *testing.T, c *cluster.Cluster, ns string) {
	t.Helper()
	c.Kubectl(t, "-n", ns, "patch", "trustyaiservice", "tas", "--type=merge", "-p", `{"spec":{"storage":{"format":"DATABASE"}}}`)
}

// TestMigrationGoesOnAfterACrashInEachPhase holds a migration in each phase that waits for something: Pending without a
// Secret, Copying while no Deployment is rolled out and while no pod can start. An operator that dies there is followed by
// one that goes on, to the same end.
func TestMigrationGoesOnAfterACrashInEachPhase(t *testing.T) {
	c := cluster.Shared(t)
	var end []string
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprintf("crash=%t", crash), func(t *testing.T) {
			o := start(t, c, harness.Options{})
			ns := c.Namespace(t)
			restart := func(at v1.MigrationPhase) {
				if !crash {
					return
				}
				o.Stop()
				if m := get(t, c, ns, "tas").Status.Migration; m.Phase != at {
					t.Fatalf("the operator died in phase %s, not %s", m.Phase, at)
				}
				o = start(t, c, harness.Options{})
			}
			boundClaim(t, c, ns, "tas-pvc")
			c.Apply(t, migratable, ns)
			condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
			pods := podUIDs(t, c, ns)
			claim := c.Get(t, gvkOf("v1", "PersistentVolumeClaim"), ns, "tas-pvc")

			toDatabase(t, c, ns)
			phase(t, c, ns, v1.MigrationPending)
			says(t, c, ns, "tas", "Ready", metav1.ConditionFalse, "tas-db-credentials")
			restart(v1.MigrationPending)

			c.StopComponent(t, "kube-controller-manager")
			c.Apply(t, databaseSecret("tas-db-credentials"), ns)
			phase(t, c, ns, v1.MigrationCopying)
			restart(v1.MigrationCopying)

			uncordon := cordon(t, c)
			c.StartComponent(t, "kube-controller-manager")
			// The copying pod is there and cannot become ready, so nothing goes on.
			cluster.Eventually(t, 60*time.Second, func() error {
				if now := podUIDs(t, c, ns); len(now) != 1 || slices.Contains(pods, now[0]) {
					return fmt.Errorf("the pods are %v", now)
				}
				return nil
			})
			restart(v1.MigrationCopying)
			cluster.Consistently(t, time.Second, func() error {
				if m := get(t, c, ns, "tas").Status.Migration; m.Phase != v1.MigrationCopying {
					return fmt.Errorf("the migration is %+v", m)
				}
				return nil
			})
			if text := template(t, c, ns); !strings.Contains(text, "STORAGE_MIGRATION_CONFIG_FROM_FOLDER") || !strings.Contains(text, "tas-pvc") {
				t.Errorf("the copying pod lacks its source: %s", text)
			}

			uncordon()
			phase(t, c, ns, v1.MigrationDone)
			text := ""
			cluster.Eventually(t, 60*time.Second, func() error {
				if text = template(t, c, ns); strings.Contains(text, "STORAGE_MIGRATION") || strings.Contains(text, "tas-pvc") {
					return fmt.Errorf("the volume is still used: %s", text)
				}
				if now := podUIDs(t, c, ns); len(now) != 1 || slices.Contains(pods, now[0]) {
					return fmt.Errorf("the pods are %v", now)
				}
				if st := get(t, c, ns, "tas").Status; st.StorageFormat != v1.StorageDatabase {
					return fmt.Errorf("the status says %s", st.StorageFormat)
				}
				return nil
			})
			condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
			if now := c.Get(t, gvkOf("v1", "PersistentVolumeClaim"), ns, "tas-pvc"); now == nil || now.GetUID() != claim.GetUID() {
				t.Error("the files are gone")
			}
			condition(t, c, ns, "tas", "DBAvailable", metav1.ConditionTrue)
			end = append(end, strings.ReplaceAll(text, ns, "NS"))
		})
	}
	if len(end) == 2 && end[0] != end[1] {
		t.Errorf("the crashes changed the end:\n%s\nwithout\n%s", end[1], end[0])
	}
}

func TestFailedMigrationGoesBackToTheVolumeAndIsRetriedByTheAnnotation(t *testing.T) {
	c := cluster.Shared(t)
	// A busy machine makes a pod ready within the deadline, too.
	startWith(t, c, harness.Options{}, trustyai.Settings{Image: trustyai.DefaultImage, ProgressDeadline: 15})
	ns := c.Namespace(t)
	boundClaim(t, c, ns, "tas-pvc")
	c.Apply(t, migratable, ns)
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
	before := template(t, c, ns)
	c.Apply(t, databaseSecret("tas-db-credentials"), ns)
	uncordon := cordon(t, c)
	toDatabase(t, c, ns)
	got := phase(t, c, ns, v1.MigrationFailed)
	if !strings.Contains(got.Message, "trustyai.opendatahub.io/db-migration") {
		t.Errorf("the message does not say how to go on: %s", got.Message)
	}
	stalled := condition(t, c, ns, "tas", "Stalled", metav1.ConditionTrue)
	if stalled.Reason != "MigrationFailed" {
		t.Errorf("Stalled says %s: %s", stalled.Reason, stalled.Message)
	}
	cluster.Eventually(t, 30*time.Second, func() error {
		if text := template(t, c, ns); text != before {
			return fmt.Errorf("the Deployment does not go back: %s", text)
		}
		return nil
	})
	// The service comes back on the volume, and the status says for how long it was away. Nothing is tried again by itself,
	// now that it could succeed.
	uncordon()
	cluster.Eventually(t, 60*time.Second, func() error {
		m := get(t, c, ns, "tas").Status.Migration
		if m.Phase != v1.MigrationFailed || m.InterruptedAt == nil || m.ResumedAt == nil || !strings.Contains(m.Message, "interrupted for") {
			return fmt.Errorf("the migration is %+v", m)
		}
		return nil
	})
	pods := podUIDs(t, c, ns)
	cluster.Consistently(t, 2*time.Second, func() error {
		if m := get(t, c, ns, "tas").Status.Migration; m.Phase != v1.MigrationFailed {
			return fmt.Errorf("the migration is %+v", m)
		}
		return serving(t, c, ns, pods[0])
	})
	c.Kubectl(t, "-n", ns, "annotate", "trustyaiservice", "tas", trustyai.MigrationAnnotation+"=again")
	phase(t, c, ns, v1.MigrationDone)
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
	if now := podUIDs(t, c, ns); slices.Contains(now, pods[0]) {
		t.Error("the old pod is still there")
	}
}
