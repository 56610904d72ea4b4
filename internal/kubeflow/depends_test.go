package kubeflow

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
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

// changed is a KfDef that was Ready before its spec was changed, deleted one that is being deleted.
func changed(of *kubeflowv1.KfDef) *kubeflowv1.KfDef {
	of.Status.ObservedGeneration, of.Generation = 2, 3
	return of
}

func deleted(of *kubeflowv1.KfDef) *kubeflowv1.KfDef {
	of.DeletionTimestamp = &metav1.Time{Time: testNow}
	return of
}

// TestAwaited looks at the KfDefs that one depends on.
func TestAwaited(t *testing.T) {
	for name, c := range map[string]struct {
		dependsOn   []string
		siblings    []client.Object
		hold, cycle string
		unknown     plan.Problem
	}{
		"nothing":           {siblings: []client.Object{other("b", false)}},
		"one that is Ready": {dependsOn: []string{"b"}, siblings: []client.Object{other("b", true)}},
		"one that is not":   {dependsOn: []string{"b", "c"}, siblings: []client.Object{other("b", true), other("c", false)}, hold: "KfDef c, which is not Ready"},
		"one that was":      {dependsOn: []string{"b"}, siblings: []client.Object{changed(other("b", true))}, hold: "KfDef b, which is not Ready"},
		"one that goes":     {dependsOn: []string{"b"}, siblings: []client.Object{deleted(other("b", true))}, hold: "KfDef b, which is being deleted"},
		"one that is missing": {
			dependsOn: []string{"c", "b"}, siblings: []client.Object{other("c", true)}, hold: "KfDef b, which is not in namespace kubeflow",
			unknown: missing(1, "b"),
		},
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
			cluster := controllertest.New(testNow)
			cluster.Others = c.siblings
			got, err := awaited(t.Context(), cluster, other("a", false, c.dependsOn...), "")
			if err != nil || got != (Awaited{Hold: c.hold, Cycle: c.cycle, Unknown: c.unknown}) {
				t.Errorf("%+v (%v)", got, err)
			}
		})
	}
}

// TestAwaitedInAnotherNamespace looks at KfDefs of other namespaces as the ServiceAccount may. Who may not read them learns nothing: not even
// whether there are any.
func TestAwaitedInAnotherNamespace(t *testing.T) {
	const user, hold = "system:serviceaccount:kubeflow:tenant", "KfDef platform/istio, of which nothing is known"
	there := func(ready bool, dependsOn ...kubeflowv1.Dependency) *kubeflowv1.KfDef {
		out := other("istio", ready)
		out.Namespace, out.Spec.DependsOn = "platform", dependsOn
		out.APIVersion, out.Kind = kubeflowv1.GroupVersion.String(), "KfDef"
		return out
	}
	for name, c := range map[string]struct {
		other               *kubeflowv1.KfDef
		denied, operator    bool
		hold, cycle, reason string
	}{
		"Ready":                  {other: there(true)},
		"Ready once":             {other: changed(there(true)), hold: "KfDef platform/istio, which is not Ready"},
		"being deleted":          {other: deleted(there(true)), hold: "KfDef platform/istio, which is being deleted"},
		"not Ready":              {other: there(false), hold: "KfDef platform/istio, which is not Ready"},
		"one another":            {other: there(true, kubeflowv1.Dependency{Name: "a", Namespace: "kubeflow"}), cycle: "a, platform/istio, a"},
		"a namesake of theirs":   {other: there(true, kubeflowv1.Dependency{Name: "a"})},
		"missing":                {hold: hold, reason: reasonDependencyUnknown},
		"not to be read":         {other: there(true), denied: true, hold: hold, reason: reasonDependencyUnknown},
		"not to be read, absent": {denied: true, hold: hold, reason: reasonDependencyUnknown},
		"not to be watched":      {other: there(true), operator: true, hold: hold, reason: "Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := controllertest.New(testNow)
			cluster.Denied = map[string]bool{user: c.denied, "": c.operator}
			if c.other != nil {
				content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c.other)
				if err != nil {
					t.Fatal(err)
				}
				cluster.Put(&unstructured.Unstructured{Object: content})
			}
			cr := other("a", false)
			cr.Spec.DependsOn = []kubeflowv1.Dependency{{Name: "istio", Namespace: "platform"}}
			got, err := awaited(t.Context(), cluster, cr, user)
			if err != nil || got.Hold != c.hold || got.Cycle != c.cycle || got.Unknown.Reason != c.reason {
				t.Errorf("%+v (%v)", got, err)
			}
			if got.Unknown.Reason != "" && (got.Unknown.Class != plan.Blocked || got.Unknown.Field != "spec.dependsOn[0]") {
				t.Errorf("%+v", got.Unknown)
			}
			p := plan.Plan{Stages: []plan.Stage{{}}}
			if got.hold(&p); (len(p.Problems) > 0) != (c.reason+c.cycle != "") || p.Stages[0].Hold != c.hold {
				t.Errorf("%+v", p)
			}
			if c.reason == reasonDependencyUnknown {
				if absent, err := awaited(t.Context(), controllertest.New(testNow), cr, user); err != nil || cmp.Diff(got, absent) != "" {
					t.Errorf("it can be told from a KfDef that is not there: %s", cmp.Diff(got, absent))
				}
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
