package source

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	testclock "k8s.io/utils/clock/testing"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// TestRefusedWatchesAreCounted: what is refused for lack of a right counts by its resource. Other errors do not, nor what an API server refuses
// that has not read the roles yet.
func TestRefusedWatchesAreCounted(t *testing.T) {
	gvr := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}
	clock := testclock.NewFakeClock(time.Unix(0, 0))
	backoff := NewBackoff(clock, logr.Discard())
	var answer error
	lw := cache.ToListerWatcherWithContext(listWatch(nil, Scope{Resource: gvr}, backoff,
		func(context.Context, metav1.ListOptions) (runtime.Object, error) { return &corev1.PodList{}, answer },
		func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), answer }))
	forbidden := apierrors.NewForbidden(gvr.GroupResource(), "", errors.New("no"))
	for i, step := range []struct {
		answer error
		pause  time.Duration
		want   float64
	}{
		{errors.New("connection refused"), 0, 0},
		{forbidden, 0, 2},
		{apierrors.NewUnauthorized("expired"), time.Hour, 4},
		{nil, 0, 4},
		{forbidden, time.Hour, 4},
		{forbidden, time.Hour, 6},
	} {
		answer = step.answer
		clock.Step(step.pause)
		_, _ = lw.ListWithContext(t.Context(), metav1.ListOptions{})
		clock.Step(time.Hour / 1000)
		_, _ = lw.WatchWithContext(t.Context(), metav1.ListOptions{})
		if got := counted(t); got != step.want {
			t.Errorf("step %d, %v: %v are counted, want %v", i, step.answer, got, step.want)
		}
	}
}

// counted is the sum of what the metric has.
func counted(t *testing.T) (sum float64) {
	t.Helper()
	ServeMetrics()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, one := range family.GetMetric() {
			if family.GetName() == "mlkeeper_refused_watches_total" {
				sum += one.GetCounter().GetValue()
			}
		}
	}
	return sum
}
