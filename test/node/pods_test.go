//go:build realnode

package node

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trustyaiv1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/test/cluster"
)

// devcluster runs another command of the binary that the cluster was booted with.
func devcluster(t *testing.T, args ...string) string {
	t.Helper()
	path := os.Getenv("MLKEEPER_DEVCLUSTER")
	if path == "" {
		root, err := cluster.Root()
		if err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(root, "bin", "devcluster")
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("devcluster %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// volume makes a PersistentVolume in a folder of the machine that any user may write to, as pods on a hostPath need it.
// The claim it is kept for may be "", for any.
func volume(t *testing.T, c *cluster.Cluster, name, ns, claim string) {
	t.Helper()
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: %s}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  hostPath: {path: %q, type: Directory}
`, name, folder)
	if claim != "" {
		text += fmt.Sprintf("  claimRef: {namespace: %s, name: %s}\n", ns, claim)
	}
	c.Apply(t, text)
}

// clientPod starts a pod from which the test speaks with the cluster, as a ServiceAccount of its own.
func clientPod(t *testing.T, c *cluster.Cluster, ns, name string) {
	t.Helper()
	c.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: %[1]s}
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {test: client}}
spec:
  serviceAccountName: %[1]s
  containers:
  - {name: client, image: %[2]q, imagePullPolicy: Never, command: [/standin, wait]}
`, name, serviceImage), ns)
	c.Kubectl(t, "wait", "-n", ns, "pod/"+name, "--for=condition=Ready", "--timeout="+patience.String())
}

// in runs a command of the stand-in in a pod.
func in(c *cluster.Cluster, ns, pod string, args ...string) (string, error) {
	return c.TryKubectl(append([]string{"exec", "-n", ns, pod, "--", "/standin"}, args...)...)
}

// mustIn is in, and a failure fails the test.
func mustIn(t *testing.T, c *cluster.Cluster, ns, pod string, args ...string) string {
	t.Helper()
	out, err := in(c, ns, pod, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// condition waits until a condition of a TrustyAIService has a status, and returns the service.
func condition(t *testing.T, c *cluster.Cluster, ns, name, kind string, status metav1.ConditionStatus) *trustyaiv1.TrustyAIService {
	t.Helper()
	cr := &trustyaiv1.TrustyAIService{}
	cluster.Eventually(t, patience, func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, cr); err != nil {
			return err
		}
		got := meta.FindStatusCondition(cr.Status.Conditions, kind)
		if got == nil || got.Status != status || cr.Status.ObservedGeneration != cr.Generation {
			return fmt.Errorf("%s/%s: %s is not %s: %+v", ns, name, kind, status, cr.Status.Conditions)
		}
		return nil
	})
	return cr
}

// servicePod returns the only pod that a Service selects.
func servicePod(t *testing.T, c *cluster.Cluster, ns, service string) *corev1.Pod {
	t.Helper()
	svc, pods := &corev1.Service{}, &corev1.PodList{}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: service}, svc); err != nil {
		t.Fatal(err)
	}
	if err := c.Client.List(t.Context(), pods, client.InNamespace(ns), client.MatchingLabels(svc.Spec.Selector)); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 1 {
		t.Fatalf("Service %s selects %d pods", service, len(pods.Items))
	}
	return &pods.Items[0]
}

// probed asserts that Ready follows the pod's own word: the stand-in is told to fail its readiness probe, and later to
// pass it again.
func probed(t *testing.T, c *cluster.Cluster, ns, name, from string, pod *corev1.Pod) {
	t.Helper()
	for _, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionTrue} {
		began := time.Now()
		url := fmt.Sprintf("http://%s:8080/standin/ready/%s", pod.Status.PodIP, strings.ToLower(string(status)))
		mustIn(t, c, ns, from, "post", url, "")
		condition(t, c, ns, name, "Ready", status)
		t.Logf("the probe of %s answers %s: Ready is %s after %s", pod.Name,
			map[metav1.ConditionStatus]string{metav1.ConditionFalse: "503", metav1.ConditionTrue: "200"}[status],
			status, time.Since(began).Round(100*time.Millisecond))
	}
}

// partial is a payload as ModelMesh sends it.
func partial(id string) string {
	return fmt.Sprintf(`{"id":%q,"kind":"request","modelid":"m","data":"CgFt"}`, id)
}

// arrived asserts that a payload with the text arrived at a pod.
func arrived(t *testing.T, c *cluster.Cluster, ns, from string, pod *corev1.Pod, text string) {
	t.Helper()
	got := mustIn(t, c, ns, from, "get", fmt.Sprintf("http://%s:8080/standin/payloads", pod.Status.PodIP))
	if !strings.Contains(got, text) {
		t.Errorf("%s did not receive %q: %s", pod.Name, text, got)
		return
	}
	t.Logf("%s received %s", pod.Name, strings.TrimSpace(got))
}
