package samples

import (
	"encoding/base64"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	seldonv1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/test/cluster"
)

// Grant does what the samples of KfDef and SeldonOperator ask for first: an administrator lets an operator, NAMESPACE/NAME of its ServiceAccount, act as
// those of a namespace.
func Grant(t *testing.T, c *cluster.Cluster, operator, namespace string) {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(root, "bin", "mlkeeper"), "rbac", "--namespace", namespace, "--operator", operator).Output()
	if err != nil {
		t.Fatalf("mlkeeper rbac: %v", err)
	}
	c.Apply(t, string(out))
}

// ChartOf is where the chart of a component of the SeldonOperator is for a cluster without a network: an administrator's mirror in a ConfigMap.
func ChartOf(component string) seldonv1alpha1.Chart {
	return seldonv1alpha1.Chart{Repository: "configmap:charts/" + component + ".tgz", Name: component, Version: "1.0.0"}
}

// Charts makes that ConfigMap, with small charts.
func Charts(t *testing.T, c *cluster.Cluster, namespace string) {
	t.Helper()
	manifest := "{apiVersion: v1, kind: ConfigMap, metadata: {name: charts}, binaryData: {"
	for _, name := range []string{"core", "enterprise"} {
		raw, err := manifesttest.Pack(fstest.MapFS{
			"Chart.yaml":           {Data: []byte("apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n")},
			"templates/order.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n")},
		})
		if err != nil {
			t.Fatal(err)
		}
		manifest += name + ".tgz: " + base64.StdEncoding.EncodeToString(raw) + ", "
	}
	c.Apply(t, manifest+"}}\n", namespace)
}

// Ready says why a custom resource is not Ready.
func Ready(u *unstructured.Unstructured) error {
	if u == nil {
		return fmt.Errorf("it does not exist")
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, item := range conditions {
		if one, _ := item.(map[string]any); one["type"] == "Ready" && one["status"] == "True" && one["observedGeneration"] == u.GetGeneration() {
			return nil
		}
	}
	return fmt.Errorf("%s %s is not Ready: %v", u.GetKind(), u.GetName(), conditions)
}
