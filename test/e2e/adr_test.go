package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

const example = "trustyai-service-example"

func TestADRManifestUnchangedBecomesReadyWithTheADRsChildren(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	volume(t, c, "mypv")
	c.Apply(t, seeds+"trustyai-service.yaml", ns)
	condition(t, c, ns, example, "Ready", metav1.ConditionTrue)
	got := condition(t, c, ns, example, "StorageReady", metav1.ConditionTrue)
	if got.Reason != "StorageHealthy" || got.Message != "Storage system is functioning correctly." {
		t.Errorf("StorageReady says %s: %s", got.Reason, got.Message)
	}
	assertExpectedChildren(t, c, ns)
	claim := c.Get(t, gvkOf("v1", "PersistentVolumeClaim"), ns, "trustyai-service-pvc")
	if pv, _, _ := unstructured.NestedString(claim.Object, "spec", "volumeName"); pv != "mypv" {
		t.Errorf("the claim is bound to %q, not to the PersistentVolume that the manifest names", pv)
	}
	cr := get(t, c, ns, example)
	want := "http://trustyai-service." + ns + ".svc.cluster.local/consumer/kserve/v2"
	if cr.Status.URL != want || cr.Status.Phase != "Ready" || cr.Status.Replicas != 1 || cr.Status.LastUpdateTime == nil {
		t.Errorf("url %q, phase %q, replicas %d, lastUpdateTime %v",
			cr.Status.URL, cr.Status.Phase, cr.Status.Replicas, cr.Status.LastUpdateTime)
	}
	mesh := meta.FindStatusCondition(cr.Status.Conditions, "ModelMeshReady")
	if mesh == nil || mesh.Status != metav1.ConditionFalse || mesh.Reason != "NotInstalled" {
		t.Errorf("without ModelMesh, ModelMeshReady is %+v", mesh)
	}
}

// assertExpectedChildren compares the children with those that the ADR prints, field by field: what the ADR says must
// be there, and lists must be equal.
func assertExpectedChildren(t *testing.T, c *cluster.Cluster, ns string) {
	t.Helper()
	raw, err := os.ReadFile(seeds + "trustyai-expected-children.yaml")
	if err != nil {
		t.Fatal(err)
	}
	expected, err := cluster.Parse(strings.ReplaceAll(string(raw), "$NAMESPACE", ns))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range expected {
		cluster.Eventually(t, 30*time.Second, func() error {
			have := c.Get(t, want.GroupVersionKind(), ns, want.GetName())
			if have == nil {
				return fmt.Errorf("%s %s is missing", want.GetKind(), want.GetName())
			}
			return subset(want.GetKind(), want.Object, have.Object)
		})
	}
}

// subset says where have differs from want; maps may hold more, and null means absent.
func subset(path string, want, have any) error {
	switch w := want.(type) {
	case nil:
		if have != nil {
			return fmt.Errorf("%s is %v, not absent", path, have)
		}
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is %v, not a map", path, have)
		}
		for k, v := range w {
			if err := subset(path+"."+k, v, h[k]); err != nil {
				return err
			}
		}
	case []any:
		h, ok := have.([]any)
		if !ok || len(h) != len(w) {
			return fmt.Errorf("%s is %v, not %v", path, have, want)
		}
		for i := range w {
			if err := subset(fmt.Sprintf("%s[%d]", path, i), w[i], h[i]); err != nil {
				return err
			}
		}
	default:
		if fmt.Sprint(want) != fmt.Sprint(have) {
			return fmt.Errorf("%s is %v, not %v", path, have, want)
		}
	}
	return nil
}

func TestSecondServiceOfTheADRsShapeIsStalledNamingTheFirst(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	volume(t, c, pvName(ns))
	c.Apply(t, adr(pvName(ns)), ns)
	condition(t, c, ns, example, "Ready", metav1.ConditionTrue)
	c.Apply(t, strings.Replace(adr(pvName(ns)), example, "second", 1), ns)
	got := condition(t, c, ns, "second", "Stalled", metav1.ConditionTrue)
	if !strings.Contains(got.Message, example) {
		t.Errorf("the message does not name the first: %s", got.Message)
	}
	condition(t, c, ns, example, "Ready", metav1.ConditionTrue)
	c.Kubectl(t, "-n", ns, "delete", "trustyaiservice", example)
	// The claim of the first is kept with its data: it goes to another service only when that one asks for it.
	cluster.Eventually(t, 30*time.Second, func() error {
		if got := condition(t, c, ns, "second", "Ready", metav1.ConditionFalse); !strings.Contains(got.Message, "adopt") {
			return fmt.Errorf("the message is %s", got.Message)
		}
		return nil
	})
	c.Kubectl(t, "-n", ns, "annotate", "trustyaiservice", "second", "keeper.mlkeeper.dev/adopt=true")
	condition(t, c, ns, "second", "Ready", metav1.ConditionTrue)
}

func TestRecreatedServiceTakesItsKeptClaimUpAgain(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	volume(t, c, pvName(ns))
	c.Apply(t, adr(pvName(ns)), ns)
	condition(t, c, ns, example, "Ready", metav1.ConditionTrue)
	claim := c.Get(t, gvkOf("v1", "PersistentVolumeClaim"), ns, "trustyai-service-pvc")
	c.Kubectl(t, "-n", ns, "delete", "trustyaiservice", example)
	// The garbage collector learns of a new CustomResourceDefinition only after up to 30 s.
	cluster.Eventually(t, 60*time.Second, func() error {
		if c.Get(t, gvkOf("apps/v1", "Deployment"), ns, "trustyai-service") != nil {
			return fmt.Errorf("the Deployment is still there")
		}
		return nil
	})
	c.Apply(t, adr(pvName(ns)), ns)
	condition(t, c, ns, example, "Ready", metav1.ConditionTrue)
	again := c.Get(t, gvkOf("v1", "PersistentVolumeClaim"), ns, "trustyai-service-pvc")
	if again == nil || again.GetUID() != claim.GetUID() {
		t.Fatal("the claim was not kept")
	}
}

func TestSpecChangesAreApplied(t *testing.T) { // Defect 7 of reference/trustyai.md, section 4.4.
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	volume(t, c, pvName(ns))
	c.Apply(t, adr(pvName(ns)), ns)
	condition(t, c, ns, example, "Ready", metav1.ConditionTrue)
	c.Apply(t, strings.NewReplacer("15s", "30s", "spec:", "spec:\n  replicas: 0").Replace(adr(pvName(ns))), ns)
	condition(t, c, ns, example, "Available", metav1.ConditionFalse)
	d := c.Get(t, gvkOf("apps/v1", "Deployment"), ns, "trustyai-service")
	if n, _, _ := unstructured.NestedInt64(d.Object, "spec", "replicas"); n != 0 {
		t.Errorf("replicas is %d", n)
	}
	if !strings.Contains(fmt.Sprint(d.Object), "30s") {
		t.Error("the schedule did not reach the Deployment")
	}
	cluster.Eventually(t, 30*time.Second, func() error {
		if cr := get(t, c, ns, example); cr.Status.Replicas != 0 {
			return fmt.Errorf("status.replicas is %d", cr.Status.Replicas)
		}
		return nil
	})
}
