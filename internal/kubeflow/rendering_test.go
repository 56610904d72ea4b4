package kubeflow

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/bounded"
	"mlkeeper.dev/internal/manifest/kustomize"
	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/internal/manifest/worker"
	"mlkeeper.dev/internal/source"
)

const renderingKfctl = kubeflowv1.Rendering("Kfctl")

// The kustomizations of application first: one that kfctl could render, and one that it could not.
const (
	selfContained = "resources: [object.yaml]"
	besideItsOwn  = "resources: [object.yaml, ../beside]"
)

// manager is a manager with one KfDef, whose repository and memory the test exchanges.
type manager struct {
	t       *testing.T
	from    *fakeStore
	system  controller.Controller[*kubeflowv1.KfDef, Facts]
	cluster *controllertest.Cluster
	cr      *kubeflowv1.KfDef
}

func newManager(t *testing.T) *manager {
	m := &manager{t: t, from: newFakeStore(t), cr: custom("first")}
	m.restart()
	return m
}

func (m *manager) restart() {
	m.system, m.cluster = New(Settings{Trusted: true, Sources: m.from}), controllertest.New(testNow)
}

// put makes the kustomization of the application first what the repository has.
func (m *manager) put(kustomization string) {
	m.t.Helper()
	var err error
	m.from.data, err = manifesttest.Pack(fstest.MapFS{
		"first/kustomization.yaml":    {Data: []byte(kustomization)},
		"first/object.yaml":           {Data: []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: theirs}}")},
		"beside/kustomization.yaml":   {Data: []byte("resources: []")},
		"flat/kustomization.yaml":     {Data: []byte("configMapGenerator: [{name: flat, literals: [a=b], options: {disableNameSuffixHash: true}}]")},
		"moving/kustomization.yaml":   {Data: []byte("resources: ['https://github.com/example/moving?ref=main']")},
		"old/base/kustomization.yaml": {Data: []byte("configMapGenerator: [{name: old, literals: [a=b]}]")},
	})
	if err != nil {
		m.t.Fatal(err)
	}
	if m.cr.Annotations == nil {
		m.cr.Annotations = map[string]string{}
	}
	m.cr.Annotations[keeper.ReconcileAtAnnotation] += "."
}

// reconcile renders what is declared now, writes the status, and returns the plan with the objects in it.
func (m *manager) reconcile() (p plan.Plan, objects string) {
	m.t.Helper()
	_, _ = m.system.Gather(m.t.Context(), m.cluster, m.cr)
	last := m.cluster.Asked[len(m.cluster.Asked)-1]
	m.cluster.Answers[last.Name] = last.Job(m.t.Context(), nil)
	facts, err := m.system.Gather(m.t.Context(), m.cluster, m.cr)
	if err != nil {
		m.t.Fatal(err)
	}
	p = m.system.Render(m.cr, facts)
	m.system.Project(m.cr, facts, controller.ObservedState{Now: testNow, Plan: p, Problems: p.Problems})
	var out []string
	for _, stage := range p.Stages {
		for _, o := range stage.Objects {
			out = append(out, o.Key().String())
		}
	}
	return p, strings.Join(out, ", ")
}

// TestALimitOfTheDetectionIsToldAsThat holds that applications which take too much before it is found how they are rendered are not told to
// disagree about it.
func TestALimitOfTheDetectionIsToldAsThat(t *testing.T) {
	m := newManager(t)
	m.put("resources: [object.yaml]\nx: [" + strings.Repeat("[],", 4<<20) + "]")
	p, _ := m.reconcile()
	const want = "spec.rendering: is empty, and how the applications are rendered cannot be found: rendering it takes more than 256 MiB of memory; " +
		"set it to Kfctl, which renders them as kfctl v1.2 did, or to Kustomize, which renders every path as kustomize build does, or split the KfDef"
	if controllertest.Reasons(p) != "Terminal "+reasonApplicationFailed || p.Problems[0].Error() != want {
		t.Errorf("problems %v", p.Problems)
	}
	if c := meta.FindStatusCondition(m.cr.Status.Conditions, ConditionSourceUnavailable); c != nil {
		t.Errorf("the repositories cannot be fetched: %s", c.Message)
	}
	m.cr.Spec.Rendering = renderingKustomize
	if p, _ = m.reconcile(); controllertest.Reasons(p) != "Terminal "+reasonApplicationFailed || !strings.Contains(p.Problems[0].Error(), "[0] (first)") {
		t.Errorf("once the field is set: %v", p.Problems)
	}
}

// TestASecondApplicationOfOneNameIsAnError holds that an application with the name of one before it is told, in both renderings, and that nothing
// which it made under another name is deleted. kfctl merged the folder of the second into that of the first, and applied the first alone
// (kubeflow/kfctl, pkg/kfapp/kustomize/kustomize.go, Generate and Apply): the second never stood for itself.
func TestASecondApplicationOfOneNameIsAnError(t *testing.T) {
	for _, rendering := range []kubeflowv1.Rendering{renderingKfctl, renderingKustomize} {
		m := newManager(t)
		m.cr = custom("first", "second")
		m.cr.Spec.Rendering = rendering
		m.cr.Spec.Applications[1].KustomizeConfig.RepoRef.Path = "flat"
		m.put(selfContained)
		if p, got := m.reconcile(); !strings.Contains(got, "/c") || !strings.Contains(got, "/flat") || len(p.Problems) > 0 {
			t.Fatalf("%s: %s %v", rendering, got, p.Problems)
		}
		m.cr.Spec.Applications[1].Name = "first"
		for _, path := range []string{"flat", "moving"} {
			m.cr.Spec.Applications[1].KustomizeConfig.RepoRef.Path = path
			m.secondIsTold()
		}
	}
}

// secondIsTold checks what is told of an application with the name of the one before it.
func (m *manager) secondIsTold() {
	m.t.Helper()
	p, got := m.reconcile()
	if strings.Contains(got, "/flat") || !strings.Contains(got, "/c") {
		m.t.Errorf("rendered %s", got)
	}
	const want = "spec.applications[1].name (first): is the name of spec.applications[0], too, and that one alone is made: " +
		"give each application a name of its own"
	if controllertest.Reasons(p) != "Terminal "+reasonApplicationFailed || p.Problems[0].Error() != want || plan.MayPrune(p.Problems) {
		m.t.Errorf("problems %v", p.Problems)
	}
	if one := m.cr.Status.Applications[1]; one.Phase != phaseFailed || one.Objects > 0 || !strings.Contains(one.Message, "a name of its own") {
		m.t.Errorf("status %+v", one)
	}
	if one := m.cr.Status.Applications[0]; one.Phase == phaseFailed || strings.Contains(strings.Join(p.Warnings, ""), "of this name") {
		m.t.Errorf("the first is told for it: %+v, warnings %v", one, p.Warnings)
	}
}

// TestTheRenderingIsDetectedOnce holds that nothing but the spec changes how a KfDef is rendered, whatever its repository becomes: not
// in the manager that detected it, and not in one that starts later.
func TestTheRenderingIsDetectedOnce(t *testing.T) {
	m := newManager(t)
	step := func(what string, rendering kubeflowv1.Rendering, objects, note string) {
		t.Helper()
		p, got := m.reconcile()
		if got != objects || m.cr.Status.Rendering != rendering || !strings.Contains(strings.Join(p.Notes, ""), note) || len(p.Problems) > 0 {
			t.Errorf("%s: %s, rendering %s, notes %q, problems %v", what, got, m.cr.Status.Rendering, p.Notes, p.Problems)
		}
	}
	const theirs, moved = "ConfigMap theirs/c", "ConfigMap kubeflow/c"
	m.put(besideItsOwn)
	step("detected", renderingKustomize, theirs, `rendering Kustomize, since application "first" refers to "../beside"`)
	m.cr.Status.Rendering = "" // As long as the status is not written.
	m.put(selfContained)
	step("another revision", renderingKustomize, theirs, "since application")
	m.restart()
	step("after a restart", renderingKustomize, theirs, "status.rendering says that it was before")
	m.cr.Spec.Rendering = renderingKfctl
	step("as the spec says", renderingKfctl, moved, "rendering Kfctl, since spec.rendering says so")
	m.cr.Spec.Rendering = ""
	step("after the spec said it", renderingKfctl, moved, "status.rendering")
	m.put(besideItsOwn)
	p, got := m.reconcile()
	if got != moved || len(p.Problems) != 1 || !strings.Contains(p.Problems[0].Message, "set spec.rendering to Kustomize") || m.cr.Status.Rendering != renderingKfctl {
		t.Errorf("%s, rendering %s, problems %v", got, m.cr.Status.Rendering, p.Problems)
	}
}

func TestARenderingThatGaveNothingIsNotKept(t *testing.T) {
	m := newManager(t)
	m.put(besideItsOwn)
	m.cr.Spec.Applications[0].KustomizeConfig.RepoRef.Path = "frist"
	if p, _ := m.reconcile(); m.cr.Status.Rendering != "" || len(p.Problems) != 1 {
		t.Errorf("rendering %s, problems %v", m.cr.Status.Rendering, p.Problems)
	}
	m.cr.Spec.Applications[0].KustomizeConfig.RepoRef.Path = "first"
	if _, got := m.reconcile(); m.cr.Status.Rendering != renderingKustomize || got != "ConfigMap theirs/c" {
		t.Errorf("rendering %s, %s", m.cr.Status.Rendering, got)
	}
}

// TestApplicationsOfBothKindsAskForTheField holds that neither rendering is guessed, and that this is no failure of the repository.
func TestApplicationsOfBothKindsAskForTheField(t *testing.T) {
	for name, change := range map[string]func(*kubeflowv1.KfDef){
		"an application of kfctl": func(cr *kubeflowv1.KfDef) { cr.Spec.Applications = custom("first", "old").Spec.Applications },
		"a finalizer of kfctl":    func(cr *kubeflowv1.KfDef) { cr.Finalizers = []string{finalizer} },
	} {
		m := newManager(t)
		m.put(besideItsOwn)
		change(m.cr)
		p, got := m.reconcile()
		if got != "" || len(p.Problems) != 1 || p.Problems[0].Class != plan.Terminal || p.Problems[0].Reason != reasonRenderingAmbiguous ||
			p.Problems[0].Field != "spec.rendering" || !strings.Contains(p.Problems[0].Remedy, "Kfctl") || !strings.Contains(p.Problems[0].Remedy, "Kustomize") {
			t.Errorf("%s: %s, problems %+v", name, got, p.Problems)
		}
		if meta.FindStatusCondition(m.cr.Status.Conditions, ConditionSourceUnavailable) != nil || m.cr.Status.Rendering != "" {
			t.Errorf("%s: status %+v", name, m.cr.Status)
		}
		m.cr.Spec.Rendering = renderingKustomize
		if _, got := m.reconcile(); got != "ConfigMap theirs/c" {
			t.Errorf("%s: with the field, %s", name, got)
		}
		m.cr.Spec.Rendering, m.cr.Status.Rendering = "", ""
		if _, got := m.reconcile(); got != "ConfigMap theirs/c" {
			t.Errorf("%s: what was rendered before does not stay declared: %s", name, got)
		}
	}
}

// TestTheSampleIsPinned holds that the KfDef of config/samples has every field by its name, and renders one commit for good.
func TestTheSampleIsPinned(t *testing.T) {
	raw, err := os.ReadFile("../../config/samples/kfdef-kubeflow-1.11.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cr kubeflowv1.KfDef
	if err := yaml.UnmarshalStrict(raw, &cr); err != nil {
		t.Fatal(err)
	}
	if len(cr.Spec.Applications) != 29 || cr.Spec.Rendering != renderingKustomize || len(cr.Spec.Repos) != 1 ||
		!regexp.MustCompile(`\?ref=[0-9a-f]{40}$`).MatchString(cr.Spec.Repos[0].URI) {
		t.Errorf("%d applications, rendering %s, repositories %v", len(cr.Spec.Applications), cr.Spec.Rendering, cr.Spec.Repos)
	}
}

// shared are two applications that render one ConfigMap, with these values.
func shared(rendering kubeflowv1.Rendering, values ...string) Facts {
	facts := Facts{Current: true, Result: &Result{Inputs: "inputs"}, Namespaced: map[schema.GroupKind]bool{{Kind: "ConfigMap"}: true}}
	content := &facts.Result.Content
	content.Rendering, content.Spec = rendering, custom("first", "second").Spec.Applications
	for i, value := range values {
		o := object("v1", "ConfigMap", "", "shared")
		o.Object["data"] = map[string]any{"same": "x", "key": value}
		content.Applications = append(content.Applications, Application{Name: content.Spec[i].Name, Objects: []*unstructured.Unstructured{o}})
	}
	return facts
}

// TestWhatTwoApplicationsRenderDifferently is never that of the first without a word: Stalled as by kustomize, which ends there, and a
// warning as by kfctl, which applied both.
func TestWhatTwoApplicationsRenderDifferently(t *testing.T) {
	const text = `ConfigMap kubeflow/shared is rendered by application "first", too, and differs in data.key`
	cr := custom("first", "second")
	same := shared(renderingKustomize, "a", "a")
	if p := New(Settings{}).Render(cr, same); len(p.Problems) > 0 || strings.Contains(strings.Join(p.Warnings, ""), "differs") {
		t.Errorf("the same: %v, %q", p.Problems, p.Warnings)
	}
	facts := shared(renderingKustomize, "a", "b")
	p := New(Settings{}).Render(cr, facts)
	if len(p.Problems) != 1 || p.Problems[0].Reason != reasonApplicationFailed || p.Problems[0].Class != plan.Terminal ||
		p.Problems[0].Field != "spec.applications[1]" || p.Problems[0].Message != text+leaveOneOut {
		t.Errorf("as by kustomize: %+v", p.Problems)
	}
	New(Settings{}).Project(cr, facts, controller.ObservedState{Now: testNow})
	if one := cr.Status.Applications[1]; one.Phase != phaseFailed || !strings.HasPrefix(one.Message, text) {
		t.Errorf("status %+v", one)
	}
	p = New(Settings{}).Render(cr, shared(renderingKfctl, "a", "b"))
	if len(p.Problems) > 0 || len(p.Warnings) != 1 || p.Warnings[0] != "second: "+text+madeAsTheFirst {
		t.Errorf("as by kfctl: %v, %q", p.Problems, p.Warnings)
	}
	// They are two objects in two namespaces.
	facts = shared(renderingKustomize, "a", "b")
	facts.Result.Content.Applications[1].Namespace = "other"
	p = New(Settings{}).Render(cr, facts)
	if len(p.Problems) > 0 || len(p.Stages) != 3 || p.Stages[2].Objects[0].Key().Namespace != "other" {
		t.Errorf("in two namespaces: %+v", p)
	}
}

// TestWhatTwoApplicationsRenderGoesToTheStageThatComesFirst has the first application of the spec depend on the second one, whose pods may
// need the object: it would wait for itself.
func TestWhatTwoApplicationsRenderGoesToTheStageThatComesFirst(t *testing.T) {
	cr, facts := custom("first", "second"), shared(renderingKfctl, "a", "b")
	facts.Result.Content.Spec[0].DependsOn = []string{"second"}
	p := New(Settings{}).Render(cr, facts)
	var got []string
	for _, stage := range p.Stages {
		for _, o := range stage.Objects {
			value, _, _ := unstructured.NestedString(o.Desired.Object, "data", "key")
			got = append(got, stage.Name+": "+o.Key().String()+"="+value)
		}
	}
	const text = `first: ConfigMap kubeflow/shared is rendered by application "second", too, and differs in data.key`
	if strings.Join(got, ", ") != "second: ConfigMap kubeflow/shared=b" || len(p.Warnings) != 1 || p.Warnings[0] != text+madeAsTheFirst {
		t.Errorf("%s, warnings %q", strings.Join(got, ", "), p.Warnings)
	}
}

// TestWhatStandsStaysInItsNamespace holds that an edit of the namespace moves nothing of an application that cannot be rendered any more.
func TestWhatStandsStaysInItsNamespace(t *testing.T) {
	m := newManager(t)
	m.put("{configMapGenerator: [{name: c, literals: [a=b]}], generatorOptions: {disableNameSuffixHash: true}}")
	m.cr.Spec.Rendering = renderingKustomize
	one := &m.cr.Spec.Applications[0]
	for _, step := range []struct{ namespace, path, want string }{
		{"old", "first", "ConfigMap old/c"},
		{"new", "frist", "ConfigMap old/c"},
		{"newer", "frist", "ConfigMap old/c"},
		{"", "frist", "ConfigMap old/c"},
		{"new", "first", "ConfigMap new/c"},
	} {
		one.Namespace, one.KustomizeConfig.RepoRef.Path = step.namespace, step.path
		if p, got := m.reconcile(); got != step.want || (step.path == "first") != (len(p.Problems) == 0) {
			t.Errorf("namespace %q and path %s: %s, problems %v", step.namespace, step.path, got, p.Problems)
		}
	}
}

// TestObjectsWithoutANamespaceAreTold holds that the namespace of the KfDef is a default that the user hears of, and can replace.
func TestObjectsWithoutANamespaceAreTold(t *testing.T) {
	cr := custom("first", "second")
	facts := shared(renderingKustomize, "a", "a")
	facts.Result.Content.Applications[0].Objects[0].SetNamespace("theirs")
	const told = "second: made in namespace kubeflow, since they name none: ConfigMap shared; spec.applications[1].namespace names another"
	if p := New(Settings{}).Render(cr, facts); len(p.Warnings) != 1 || p.Warnings[0] != told {
		t.Errorf("warnings %q", p.Warnings)
	}
	many := &facts.Result.Content.Applications[1].Objects
	for range maxUnplaced {
		*many = append(*many, object("v1", "ConfigMap", "", "shared"))
	}
	*many = append(*many, object("v1", "Namespace", "", "wide"), object("x.io/v1", "Unknown", "", "u"))
	if p := New(Settings{}).Render(cr, facts); !strings.Contains(strings.Join(p.Warnings, ""), "ConfigMap shared and 1 more;") {
		t.Errorf("warnings %q", p.Warnings)
	}
	facts.Result.Content.Applications[1].Namespace = "kubeflow"
	if p := New(Settings{}).Render(cr, facts); len(p.Warnings) > 0 {
		t.Errorf("warnings %q", p.Warnings)
	}
	facts.Result.Content.Applications[1].Namespace, facts.Result.Content.Rendering = "", renderingKfctl
	if p := New(Settings{}).Render(cr, facts); strings.Contains(strings.Join(p.Warnings, ""), "made in namespace") {
		t.Errorf("warnings as by kfctl %q", p.Warnings)
	}
}

// TestDifferencesCostLittle has two applications render an object with a field of a long name, in which much differs.
func TestDifferencesCostLittle(t *testing.T) {
	cr, facts := custom("first", "second"), shared(renderingKustomize, "a", "b")
	long := strings.Repeat("x", 1<<20)
	for i, a := range facts.Result.Content.Applications {
		fields := map[string]any{}
		for j := range 200 {
			fields[fmt.Sprint(j)] = fmt.Sprint(i)
		}
		a.Objects[0].Object["data"] = map[string]any{long: fields, "same": "x"}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	found := conflicts(cr, facts, []int{0, 1})
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 32 || !strings.Contains(found[1], "differs in data.xxx") || len(found[1]) > 500 {
		t.Errorf("%d MiB for %.100q of %d bytes", took, found[1], len(found[1]))
	}
}

// TestTheSourceIsAvailableWhileNothingCanBeRendered holds that a worker which cannot be started is no failure of the repositories.
func TestTheSourceIsAvailableWhileNothingCanBeRendered(t *testing.T) {
	cr, facts := custom("first", "second"), shared(renderingKustomize, "a", "a")
	for reason, unavailable := range map[string]bool{source.ReasonUnreachable: true, plan.ReasonFetching: false} {
		facts.Result.Failure = notRendered(kustomize.ErrUnavailable)
		facts.Result.Failure.Reason = reason
		New(Settings{}).Project(cr, facts, controller.ObservedState{Now: testNow})
		if got := meta.IsStatusConditionTrue(cr.Status.Conditions, ConditionSourceUnavailable); got != unavailable {
			t.Errorf("%s: %v", reason, cr.Status.Conditions)
		}
	}
}

// TestWarningsAreBounded has more warnings than a status shows, with names of any length in them: of all applications together no more are
// kept, the status counts the others, and the result counts what they take.
func TestWarningsAreBounded(t *testing.T) {
	m := newManager(t)
	m.put("resources: [object.yaml]")
	m.cr.Spec.Applications = append(m.cr.Spec.Applications, m.cr.Spec.Applications[0])
	m.cr.Spec.Rendering = renderingKfctl
	for i := range m.cr.Spec.Applications {
		a := &m.cr.Spec.Applications[i]
		a.Name, a.KustomizeConfig = fmt.Sprint("a", i), &kubeflowv1.KustomizeConfig{RepoRef: &kubeflowv1.RepoRef{Name: "manifests", Path: "old"}}
		for j := range 60 {
			a.KustomizeConfig.Parameters = append(a.KustomizeConfig.Parameters, kubeflowv1.NameValue{Name: fmt.Sprint(j, strings.Repeat("x", 2000)), Value: "v"})
		}
	}
	p, _ := m.reconcile()
	if len(p.Warnings) != bounded.MaxWarnings || p.Warnings[len(p.Warnings)-1] != "and 77 warnings more" {
		t.Errorf("%d warnings, the last one %.100q", len(p.Warnings), p.Warnings[len(p.Warnings)-1])
	}
	result := m.system.(*system).results.Last(subjectOf(m.cr))
	var kept []string
	for _, a := range result.Content.Applications {
		kept = append(kept, a.Warnings.Texts...)
	}
	size := len(strings.Join(kept, ""))
	if len(kept) != bounded.MaxWarnings || size > bounded.MaxWarnings*(1<<10+len("…")) || result.Bytes < int64(size) {
		t.Errorf("%d warnings of %d bytes are kept, and %d bytes counted", len(kept), size, result.Bytes)
	}
}

// TestTheRemedyOfAKilledWorker: what the kernel ends again and again needs somebody, and what passes by itself nobody.
func TestTheRemedyOfAKilledWorker(t *testing.T) {
	if got := notRendered(&worker.KilledError{}); got.Remedy != worker.KilledRemedy || got.Class != plan.Waiting {
		t.Errorf("%+v", got)
	}
	if got := notRendered(worker.ErrUnavailable); got.Remedy != "nothing to do" {
		t.Errorf("%+v", got)
	}
}
