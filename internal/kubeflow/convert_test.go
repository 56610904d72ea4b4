package kubeflow

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
)

// TestWhatCannotBeConvertedFailsItsApplication changes a manifest such that it cannot be converted any more: what it declared before
// stays declared, and nothing is pruned beside the problem.
func TestWhatCannotBeConvertedFailsItsApplication(t *testing.T) {
	autoscaler := func(kind string) string {
		return "{apiVersion: autoscaling/v2beta1, kind: HorizontalPodAutoscaler, metadata: {name: h}, " +
			"spec: {metrics: [{type: " + kind + ", resource: {name: cpu}}]}}"
	}
	from := newFakeStore(t)
	from.put(autoscaler("Resource"))
	s := New(Settings{Trusted: true, Sources: from}).(*system)
	cluster := controllertest.New(testNow, schema.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"})
	cr := custom("first")
	rendered := func() plan.Plan {
		t.Helper()
		_, _ = s.Gather(t.Context(), cluster, cr)
		last := cluster.Asked[len(cluster.Asked)-1]
		cluster.Answers[last.Name] = last.Job(t.Context(), nil)
		facts, err := s.Gather(t.Context(), cluster, cr)
		if err != nil {
			t.Fatal(err)
		}
		return s.Render(cr, facts)
	}
	if p := rendered(); len(p.Problems) > 0 || controllertest.MustFind(t, p, "HorizontalPodAutoscaler", "h").GetAPIVersion() != "autoscaling/v2" {
		t.Fatalf("%+v", p.Problems)
	}
	from.put(autoscaler("Resuorce"))
	p := rendered()
	controllertest.MustFind(t, p, "HorizontalPodAutoscaler", "h")
	if len(p.Problems) != 1 || p.Problems[0].Reason != reasonApplicationFailed || !strings.Contains(p.Problems[0].Message, "the type of metric 1") {
		t.Errorf("%+v", p.Problems)
	}
}
