package harness

import (
	"strings"
	"testing"

	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
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
