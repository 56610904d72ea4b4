package engine

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// TestSuspendedResourcesAreCounted: an alert on certificates that are not renewed, and on fixes that are not rolled out, needs to know of them.
func TestSuspendedResourcesAreCounted(t *testing.T) {
	const kind = "OnlyInThisTest"
	m := newMetrics()
	count := func() float64 {
		families, err := ctrlmetrics.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, one := range family.GetMetric() {
				if family.GetName() == "mlkeeper_suspended" && one.GetLabel()[0].GetValue() == kind {
					return one.GetGauge().GetValue()
				}
			}
		}
		return 0
	}
	a, b := client.ObjectKey{Namespace: "ns", Name: "a"}, client.ObjectKey{Namespace: "ns", Name: "b"}
	for _, step := range []struct {
		what string
		do   func()
		want float64
	}{
		{"one is suspended", func() { m.suspend(kind, a) }, 1},
		{"it is looked at again", func() { m.suspend(kind, a) }, 1},
		{"another is", func() { m.suspend(kind, b) }, 2},
		{"one goes on", func() { m.observe(kind, a, nil, nil, time.Unix(1e9, 0)) }, 1},
		{"the other is deleted", func() { m.forget(kind, b) }, 0},
	} {
		if step.do(); count() != step.want {
			t.Errorf("%s: %v are suspended", step.what, count())
		}
	}
}
