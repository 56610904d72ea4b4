package workload

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

func TestSchedule(t *testing.T) {
	pod := corev1.PodSpec{NodeSelector: map[string]string{"stays": "x"}}
	Schedule(&pod, nil)
	if len(pod.NodeSelector) != 1 {
		t.Error("no spec changes the pod")
	}
	spec := &keeper.SchedulingSpec{
		NodeSelector: map[string]string{"a": "b"}, Tolerations: []corev1.Toleration{{Key: "t"}}, Affinity: &corev1.Affinity{},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 1}},
	}
	Schedule(&pod, spec)
	if pod.NodeSelector["a"] != "b" || len(pod.Tolerations) != 1 || pod.Affinity == nil || len(pod.TopologySpreadConstraints) != 1 {
		t.Errorf("%+v", pod)
	}
}

// TestBudget: pods that crash do not keep a node from being drained.
func TestBudget(t *testing.T) {
	const selector, crashing = `"selector":{"matchLabels":{"app":"x"}}`, `"unhealthyPodEvictionPolicy":"AlwaysAllow"`
	for want, spec := range map[string]*keeper.DisruptionSpec{
		`{"minAvailable":2,` + selector + `,` + crashing + `}`:   {MinAvailable: ptr.To(int32(2))},
		`{` + selector + `,"maxUnavailable":0,` + crashing + `}`: {MaxUnavailable: ptr.To(int32(0))},
	} {
		out := Budget(metav1.ObjectMeta{Name: "n"}, map[string]string{"app": "x"}, spec)
		if raw, err := json.Marshal(out.Spec); err != nil || string(raw) != want || out.Name != "n" {
			t.Errorf("%s: %s, %v", out.Name, raw, err)
		}
	}
}

func TestUndrainable(t *testing.T) {
	for _, c := range []struct {
		spec     keeper.DisruptionSpec
		replicas int32
		want     bool
	}{
		{keeper.DisruptionSpec{MinAvailable: ptr.To(int32(1))}, 1, true},
		{keeper.DisruptionSpec{MinAvailable: ptr.To(int32(1))}, 2, false},
		{keeper.DisruptionSpec{MaxUnavailable: ptr.To(int32(1))}, 1, false},
		{keeper.DisruptionSpec{MaxUnavailable: ptr.To(int32(0))}, 3, true},
		{keeper.DisruptionSpec{MinAvailable: ptr.To(int32(1))}, 0, false},
		{keeper.DisruptionSpec{MaxUnavailable: ptr.To(int32(0))}, 0, false},
	} {
		if got := Undrainable(&c.spec, c.replicas); (got != "") != c.want {
			t.Errorf("%+v of %d: %q", c.spec, c.replicas, got)
		}
	}
}
