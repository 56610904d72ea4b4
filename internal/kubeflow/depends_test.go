package kubeflow

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
)

// other is a KfDef of the same namespace that depends on others.
func other(name string, ready bool, dependsOn ...string) *kubeflowv1.KfDef {
	out := &kubeflowv1.KfDef{ObjectMeta: metav1.ObjectMeta{Namespace: "kubeflow", Name: name}}
	if ready {
		out.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}}
	}
	for _, d := range dependsOn {
		out.Spec.DependsOn = append(out.Spec.DependsOn, kubeflowv1.Dependency{Name: d})
	}
	return out
}

// TestAwaited looks at the KfDefs that one depends on.
func TestAwaited(t *testing.T) {
	for name, c := range map[string]struct {
		dependsOn   []string
		siblings    []client.Object
		hold, cycle string
	}{
		"nothing":             {siblings: []client.Object{other("b", false)}},
		"one that is Ready":   {dependsOn: []string{"b"}, siblings: []client.Object{other("b", true)}},
		"one that is not":     {dependsOn: []string{"b", "c"}, siblings: []client.Object{other("b", true), other("c", false)}, hold: "KfDef c, which is not Ready"},
		"one that is missing": {dependsOn: []string{"b"}, hold: "KfDef b, which is not in namespace kubeflow"},
		"one another": {
			dependsOn: []string{"b"}, siblings: []client.Object{other("b", true, "c"), other("c", true, "a")}, cycle: "a, b, c, a",
		},
		"a circle of others": {
			dependsOn: []string{"b"}, siblings: []client.Object{other("b", true, "c"), other("c", true, "b")},
		},
		"the same by two ways": {
			dependsOn: []string{"b", "c"}, siblings: []client.Object{other("b", true, "d"), other("c", true, "d"), other("d", true)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := awaited(other("a", false, c.dependsOn...), c.siblings); got.Hold != c.hold || got.Cycle != c.cycle {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestADependencyHoldsCreationsBack: nothing of any stage is created meanwhile, and a circle is a problem that needs a change.
func TestADependencyHoldsCreationsBack(t *testing.T) {
	facts := two()
	before := New(Settings{}).Render(custom("first", "Second App!"), facts)
	facts.Awaited = Awaited{Hold: "KfDef istio, which is not Ready", Cycle: "kubeflow, istio, kubeflow"}
	p := New(Settings{}).Render(custom("first", "Second App!"), facts)
	if len(p.Stages) != len(before.Stages) {
		t.Errorf("%d stages", len(p.Stages))
	}
	for _, stage := range p.Stages {
		if stage.Hold != facts.Awaited.Hold {
			t.Errorf("stage %s waits for %q", stage.Name, stage.Hold)
		}
	}
	if len(p.Problems) != 1 || p.Problems[0].Reason != reasonDependencyCycle || !strings.Contains(p.Problems[0].Error(), "kubeflow, istio, kubeflow") {
		t.Errorf("%+v", p.Problems)
	}
	if (&system{}).SamePlan(two(), facts) {
		t.Error("the plan is taken for the same")
	}
}
