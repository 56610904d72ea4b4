package seldon

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/origin"
	"mlkeeper.dev/internal/rendering"
	"mlkeeper.dev/internal/source"
)

// odd is a chart with a custom resource, its Namespace, and a hook of the same kind as another object.
const odd = `
{apiVersion: x.io/v1, kind: Thing, metadata: {name: t}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: other}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: hook, annotations: {helm.sh/hook: post-install}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: job}}
`

// TestObjectsAreObservedAsTheirComponentSays gives the objects of a component the health that its expressions tell, and leaves to others what it
// leaves. An expression that is wrong is named, and its objects stay declared.
func TestObjectsAreObservedAsTheirComponentSays(t *testing.T) {
	from := newFakeStore(t, odd)
	s, cluster, kept := New(Settings{Sources: from}).(*system), controllertest.New(testNow), made(t, nil, testNow)
	kept.there = true
	cr := &v1alpha1.SeldonOperator{}
	cr.Namespace, cr.Name = "ns", "seldon"
	rendered := func(current string) (plan.Plan, v1alpha1.ComponentStatus) {
		t.Helper()
		spec := v1alpha1.Component{Observation: keeper.Observation{
			DriftDetection: &keeper.DriftDetection{Mode: keeper.DriftWarn, Ignore: []keeper.DriftRule{{
				Paths: []string{"/spec"}, Target: &keeper.DriftTarget{Kind: "Thing"},
			}}},
			HealthCheckExprs: []keeper.HealthCheckExpr{
				{APIVersion: "x.io/v1", Kind: "Thing", Current: current},
				{APIVersion: "v1", Kind: "Namespace", Current: "true"},
				{APIVersion: "batch/v1", Kind: "Job", Current: "true"},
			},
		}}
		c := component{name: core, spec: spec, chart: v1alpha1.Chart{Name: "small", Version: "1.0.0"}}
		r := request{
			component: c, namespace: "ns", keys: kept, field: "spec." + core, values: values{},
			from: rendering.Source{Origin: origin.Origin{Chart: &source.ChartRequest{}}},
		}
		facts := Facts{Keys: kept, Parts: []Part{{component: c, Result: ran(t, s, cluster, r.job(cr))}}}
		return s.Render(cr, facts), componentStatus(cr, facts, facts.Parts[0], v1alpha1.ComponentStatus{}, controller.ObservedState{})
	}
	p, status := rendered("metadata.generation == 2")
	if len(p.Problems) > 0 || status.Phase == phaseFailed {
		t.Fatalf("%+v, %+v", p.Problems, status)
	}
	thing := find(t, p, "Thing", "t")
	for generation, want := range map[int64]health.Status{1: health.InProgress, 2: health.Current} {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "x.io/v1", "kind": "Thing"}}
		u.SetGeneration(generation)
		if got, _, ok := thing.Health.Of(u); !ok || got.Status != want {
			t.Errorf("of generation %d: %+v", generation, got)
		}
	}
	if find(t, p, "Namespace", "other").Health != nil || find(t, p, "Job", "hook").Health != nil || find(t, p, "Job", "job").Health == nil {
		t.Error("an expression tells the health of a Namespace or a hook, or of no Job")
	}
	for kind, name := range map[string]string{"Thing": "t", "Namespace": "other", "Job": "hook"} {
		if drift := find(t, p, kind, name).Drift; !drift.Leave || slices.Equal(drift.Ignore, []string{"/spec"}) != (kind == "Thing") {
			t.Errorf("of a %s is left %+v", kind, drift)
		}
	}
	p, status = rendered("metadata.generation =")
	find(t, p, "Thing", "t")
	if len(p.Problems) != 1 || p.Problems[0].Field != "spec.core.healthCheckExprs[0].current" || p.Problems[0].Class != plan.Terminal {
		t.Errorf("%+v", p.Problems)
	}
	if status.Phase != phaseFailed || status.Message == "" || status.Message != p.Problems[0].Message {
		t.Errorf("%+v", status)
	}
}

// find is an object of a plan.
func find(t *testing.T, p plan.Plan, kind, name string) plan.Object {
	t.Helper()
	for _, stage := range p.Stages {
		for _, o := range stage.Objects {
			if o.Desired.GetKind() == kind && o.Desired.GetName() == name {
				return o
			}
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return plan.Object{}
}
