package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/trustyai"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

const seeds = "../testdata/seeds/"

var gvk = v1.GroupVersion.WithKind("TrustyAIService")

func TestMain(m *testing.M) {
	cluster.Main(m, cluster.WithCRDs("gateway", "route", "servicemonitor", "inferenceservice"))
}

// start runs the operator with the TrustyAI controller and waits until it is ready for work.
func start(t *testing.T, c *cluster.Cluster, opts harness.Options) *harness.Operator {
	t.Helper()
	return startWith(t, c, opts, trustyai.Settings{Image: trustyai.DefaultImage, ProxyImage: trustyai.DefaultProxyImage})
}

// startWith is start with other settings of the controller.
func startWith(t *testing.T, c *cluster.Cluster, opts harness.Options, settings trustyai.Settings) *harness.Operator {
	t.Helper()
	c.InstallCRDs(t)
	opts.Verbose = testing.Verbose()
	return harness.Start(t, c, opts, trustyAI(settings))
}

func trustyAI(s trustyai.Settings) harness.Register {
	return harness.Controller(trustyai.Definition(), trustyai.New(s))
}

// volume creates a PersistentVolume of 1Gi that is deleted with the test.
func volume(t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	c.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: %s}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  hostPath: {path: /data}
`, name))
	t.Cleanup(func() { _, _ = c.TryKubectl("delete", "pv", name, "--wait=false", "--ignore-not-found") })
}

// adr is the ADR's manifest with a PersistentVolume of the test's own.
func adr(pv string) string {
	return fmt.Sprintf(`
apiVersion: trustyai.opendatahub.io/v1alpha1
kind: TrustyAIService
metadata: {name: trustyai-service-example}
spec:
  storage: {format: PVC, folder: /inputs, pv: %s, size: 1Gi}
  data: {filename: data.csv, format: CSV}
  trustyaiMetrics: {schedule: 15s}
`, pv)
}

func get(t *testing.T, c *cluster.Cluster, ns, name string) *v1.TrustyAIService {
	t.Helper()
	u := c.Get(t, gvk, ns, name)
	if u == nil {
		return nil
	}
	cr := &v1.TrustyAIService{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, cr); err != nil {
		t.Fatal(err)
	}
	return cr
}

// condition waits until a condition of a TrustyAIService has a status for its current generation.
func condition(
	t *testing.T, c *cluster.Cluster, ns, name, kind string, want metav1.ConditionStatus,
) metav1.Condition {
	t.Helper()
	var got metav1.Condition
	cluster.Eventually(t, 60*time.Second, func() error {
		cr := get(t, c, ns, name)
		if cr == nil {
			return fmt.Errorf("TrustyAIService %s/%s does not exist", ns, name)
		}
		found := meta.FindStatusCondition(cr.Status.Conditions, kind)
		if found == nil || found.Status != want || cr.Status.ObservedGeneration != cr.Generation {
			return fmt.Errorf("%s is %+v at generation %d of %d", kind, found, cr.Status.ObservedGeneration, cr.Generation)
		}
		got = *found
		return nil
	})
	return got
}

// secondOver waits until another object cannot have been created in the same second, in which the UID would tell which of them is older.
func secondOver(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	cluster.Eventually(t, 30*time.Second, func() error {
		if time.Since(u.GetCreationTimestamp().Time) < time.Second {
			return errors.New("the second has not passed")
		}
		return nil
	})
}

func gvkOf(apiVersion, kind string) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(apiVersion, kind)
}

// pvName is a cluster-scoped name of the test's own.
func pvName(ns string) string { return "pv-" + strings.ToLower(ns) }
