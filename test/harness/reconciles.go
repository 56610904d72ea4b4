package harness

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"mlkeeper.dev/test/cluster"
)

// Reconciles are the reconciles of this process so far, by the metric that counts them and its labels: by controller, and by
// kind and outcome.
func Reconciles(t testing.TB) map[string]float64 {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "controller_runtime_reconcile_total" && f.GetName() != "mlkeeper_reconciles_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetName() + "=" + label.GetValue()
			}
			out[name] = m.GetCounter().GetValue()
		}
	}
	if len(out) == 0 {
		t.Fatal("no metric counts the reconciles")
	}
	return out
}

// ReconcilesOf are the reconciles of one controller so far, such as kfdef.
func ReconcilesOf(t testing.TB, controller string) int {
	t.Helper()
	sum := 0.0
	for name, n := range Reconciles(t) {
		if strings.Contains(name, " controller="+controller+" ") {
			sum += n
		}
	}
	return int(sum)
}

// NoTimer has a settled custom resource reconciled once more, and fails the test if the operator sets itself a timer of less than
// a day for it then. Without one nothing is done periodically, however long the period: to look on for a while shows short ones alone. The
// passes of other custom resources count for nothing.
func NoTimer(t testing.TB, c *cluster.Cluster, gvk schema.GroupVersionKind, namespace, name string) {
	t.Helper()
	r := resource{strings.ToLower(gvk.Kind), namespace, name}
	before := counted.of(r)
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(namespace)
	u.SetName(name)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"test/look":"`+strconv.Itoa(before.ended)+`"}}}`))
	if err := c.Client.Patch(t.Context(), u, patch, client.FieldOwner("somebody")); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, 30*time.Second, func() error {
		if counted.of(r).ended == before.ended {
			return fmt.Errorf("%s %s/%s is not looked at again", gvk.Kind, namespace, name)
		}
		return nil
	})
	if n := counted.of(r).timers - before.timers; n > 0 {
		t.Errorf("%s %s/%s is settled, and yet %d of its passes set a timer", gvk.Kind, namespace, name, n)
	}
}
