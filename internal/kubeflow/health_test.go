package kubeflow

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
)

// TestHealthCheckExprs gives the objects of an application the health that its expressions tell, and names the expression that is wrong
// while its objects stay declared.
func TestHealthCheckExprs(t *testing.T) {
	from := newFakeStore(t)
	from.put("{apiVersion: x.io/v1, kind: Thing, metadata: {name: t}}")
	s := New(Settings{Trusted: true, Sources: from}).(*system)
	cluster := controllertest.New(testNow)
	cr := custom("first")
	rendered := func(current string) plan.Plan {
		t.Helper()
		cr.Spec.Applications[0].HealthCheckExprs = []keeper.HealthCheckExpr{{APIVersion: "x.io/v1", Kind: "Thing", Current: current}}
		_, _ = s.Gather(t.Context(), cluster, cr)
		last := cluster.Asked[len(cluster.Asked)-1]
		cluster.Answers[last.Name] = last.Job(t.Context(), nil)
		facts, err := s.Gather(t.Context(), cluster, cr)
		if err != nil {
			t.Fatal(err)
		}
		return s.Render(cr, facts)
	}
	p := rendered("metadata.generation == 2")
	if len(p.Problems) > 0 {
		t.Fatalf("%+v", p.Problems)
	}
	object := p.Stages[1].Objects[0]
	for generation, want := range map[int64]health.Status{1: health.InProgress, 2: health.Current} {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "x.io/v1", "kind": "Thing"}}
		u.SetGeneration(generation)
		if got, _, ok := object.Health.Of(u); !ok || got.Status != want {
			t.Errorf("of generation %d: %+v", generation, got)
		}
	}
	p = rendered("metadata.generation =")
	controllertest.MustFind(t, p, "Thing", "t")
	if len(p.Problems) != 1 || p.Problems[0].Field != "spec.applications[0].healthCheckExprs[0].current" {
		t.Errorf("%+v", p.Problems)
	}
}
