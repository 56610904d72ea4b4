package engine

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/status"
	"mlkeeper.dev/internal/engine/watch"
)

// TestSuspendedResourcesAreCounted: an alert on certificates that are not renewed, and on fixes that are not rolled out, needs to know of them.
func TestSuspendedResourcesAreCounted(t *testing.T) {
	const kind = "OnlyInThisTest"
	m := newMetrics(clock.RealClock{})
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

// TestWhatDoesNotFitItsTypeIsNotReadyInMetrics: the metric must not say Ready of a custom resource whose status says InvalidSpec.
func TestWhatDoesNotFitItsTypeIsNotReadyInMetrics(t *testing.T) {
	s, clock := bareStacks()
	s.def.GVK.Kind = "AlsoOnlyInThisTest"
	cr := passOf("a", nil, "").cr
	key := client.ObjectKeyFromObject(cr)
	state := s.stateOf(key)
	s.progress(state, true)
	child := map[plan.Key]controller.State{{Name: "child"}: {Current: true}}
	s.metrics.observe(s.def.GVK.Kind, key, child, &metav1.Condition{Status: metav1.ConditionTrue, Reason: status.ReasonReady}, clock.Now())
	bad := &watch.Undecodable{Unstructured: &unstructured.Unstructured{Object: map[string]any{}}, Err: errors.New("spec.x is a number")}
	bad.SetNamespace(key.Namespace)
	bad.SetName(key.Name)
	for range 2 {
		if _, err := s.undecodable(t.Context(), bad); err != nil {
			t.Fatal(err)
		}
	}
	counts := s.metrics.stack[s.def.GVK.Kind][key]
	if counts.status != "False" || counts.reason != status.ReasonInvalidSpec || counts.health[health.Current] != 1 {
		t.Errorf("counted is %+v", counts)
	}
	if state.progressing {
		t.Error("it counts among those that progress, whose statuses are written the later the more there are")
	}
}
