package seldon

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/manifest/helm"
	"mlkeeper.dev/internal/origin"
	"mlkeeper.dev/internal/rendering"
	"mlkeeper.dev/internal/source"
)

// TestWhatIsAnUpgrade: another chart or other values are another revision, and an upgrade once one was ready.
func TestWhatIsAnUpgrade(t *testing.T) {
	const digest, values = "chart", "values"
	for name, c := range map[string]struct {
		recorded v1alpha1.ComponentStatus
		want     revision
		upgrade  bool
	}{
		"nothing is recorded":             {v1alpha1.ComponentStatus{Name: core}, revision{Number: 1}, false},
		"the same":                        {v1alpha1.ComponentStatus{Digest: digest, ValuesDigest: values, Revision: 1}, revision{Number: 1}, false},
		"the same, and ready":             {v1alpha1.ComponentStatus{Digest: digest, ValuesDigest: values, Revision: 1, InstalledRevision: 1}, revision{Number: 1, Installed: 1}, false},
		"the same upgrade":                {v1alpha1.ComponentStatus{Digest: digest, ValuesDigest: values, Revision: 3, InstalledRevision: 1}, revision{Number: 3, Installed: 1, Run: "run"}, true},
		"another, which was installed":    {v1alpha1.ComponentStatus{Digest: digest, ValuesDigest: values, Revision: 3, InstalledRevision: 3}, revision{Number: 3, Installed: 3, Run: "run"}, false},
		"other values":                    {v1alpha1.ComponentStatus{Digest: digest, ValuesDigest: "v", Revision: 1, InstalledRevision: 1}, revision{Number: 2, Installed: 1, Run: "run"}, true},
		"another chart":                   {v1alpha1.ComponentStatus{Digest: "c", ValuesDigest: values, Revision: 1, InstalledRevision: 1}, revision{Number: 2, Installed: 1, Run: "run"}, true},
		"instead of what was never ready": {v1alpha1.ComponentStatus{Digest: "c", ValuesDigest: values, Revision: 4}, revision{Number: 5, Run: "run"}, false},
		"recorded before revisions were":  {v1alpha1.ComponentStatus{Digest: digest, ValuesDigest: values}, revision{Number: 1, Installed: 1}, false},
		"and changed since":               {v1alpha1.ComponentStatus{Digest: "c", ValuesDigest: values}, revision{Number: 2, Installed: 1, Run: "run"}, true},
	} {
		got := next(c.recorded, digest, values)
		if got.Run != "" {
			got.Run = "run"
		}
		if got != c.want || got.upgrade() != c.upgrade {
			t.Errorf("%s: %+v, an upgrade: %t", name, got, got.upgrade())
		}
	}
	recorded := v1alpha1.ComponentStatus{ValuesDigest: "v", Revision: 1}
	first, again, other := next(recorded, digest, values), next(recorded, digest, values), next(recorded, digest, "other")
	if first.Run != again.Run || first.Run == other.Run {
		t.Error("the runs of two revisions are not told apart")
	}
}

// TestARevisionIsWhatTheStatusRecords renders a chart over its life: twice the same, then other values, and again after a restart.
func TestARevisionIsWhatTheStatusRecords(t *testing.T) {
	store, err := source.New(source.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	from := &fakeStore{store: store}
	from.put(t, `
apiVersion: v1
kind: ConfigMap
metadata: {name: one}
data: {release: "{{ .Release.Revision }} {{ .Release.IsInstall }} {{ .Release.IsUpgrade }} {{ .Values.key }}"}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: both, annotations: {helm.sh/hook: "pre-install,pre-upgrade"}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: install, annotations: {helm.sh/hook: pre-install}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: upgrade, annotations: {helm.sh/hook: post-upgrade}}}
`)
	cr := &v1alpha1.SeldonOperator{}
	cr.Name, cr.Namespace, cr.UID = "stack", "ns", "uid"
	kept := made(t, nil, testNow)
	var s *system
	rendered := func(key string) *Result {
		t.Helper()
		r := request{
			component: component{name: core, chart: v1alpha1.Chart{Name: "small", Version: "1.0.0"}}, namespace: "ns", values: values{"key": key},
			keys: kept, from: rendering.Source{Origin: origin.Origin{Chart: &source.ChartRequest{}}}, recorded: recordedOf(cr, core),
			cluster: helm.Cluster{Version: "v1.36.2", Serves: func(string) bool { return true }},
		}
		result := ran(t, s, controllertest.New(testNow), r.job(cr))
		if result.Failure != nil {
			t.Fatal(result.Failure)
		}
		cr.Status.Components = []v1alpha1.ComponentStatus{{
			Name: core, Digest: result.Sources[0].Digest, ValuesDigest: result.Content.ValuesDigest,
			Revision: result.Content.Number, InstalledRevision: max(1, result.Content.Installed),
		}}
		return result
	}
	var before *Result
	for _, c := range []struct {
		key, release, runs, left string
		restart                  bool
	}{
		{"a", "1 true false a", "one both install", "", true},
		{"a", "1 true false a", "one both install", "", true},
		{"b", "2 false true b", "one both upgrade", "install", false},
		{"b", "2 false true b", "one both upgrade", "install", true},
		{"a", "3 false true a", "one both upgrade", "install", false},
	} {
		if c.restart {
			s = New(Settings{Sources: from}).(*system)
		}
		result := rendered(c.key)
		release, _, _ := unstructured.NestedString(result.Content.Objects[0].Object, "data", "release")
		part := Part{Result: &Result{Content: Content{Objects: result.Content.Objects, Before: result.Content.Before, After: result.Content.After}}}
		if got := strings.Join(sortedNames(part), " "); release != c.release || got != c.runs || names(Part{Result: &Result{Content: Content{Objects: result.Content.Left}}}) != c.left {
			t.Errorf("%s: %s, running %s and leaving %v", c.key, release, got, result.Content.Left)
		}
		before = result
	}
	if before.Content.Run == "" {
		t.Error("the hooks of an upgrade are run for nothing")
	}
}

func sortedNames(part Part) []string {
	out := []string{}
	for _, o := range part.Result.Content.Objects {
		out = append(out, o.GetName())
	}
	for _, o := range part.Result.Content.Before {
		out = append(out, o.GetName())
	}
	for _, o := range part.Result.Content.After {
		out = append(out, o.GetName())
	}
	return out
}

// object is one of a kind; hook is its weight and its delete policy, or empty.
func object(kind, name, hook string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind}}
	switch kind {
	case "Job":
		u.SetAPIVersion("batch/v1")
	case "CustomResourceDefinition":
		u.SetAPIVersion("apiextensions.k8s.io/v1")
	}
	u.SetName(name)
	if hook != "" {
		weight, policy, _ := strings.Cut(hook, " ")
		u.SetAnnotations(map[string]string{"helm.sh/hook": "pre-install", "helm.sh/hook-weight": weight, "helm.sh/hook-delete-policy": policy})
	}
	return u
}

// TestTheStepsOfAComponent: hooks come before and after the objects, a step for each weight and after each Job. With hook-succeeded they go,
// whatever they are but for volumes and definitions. What is suspended is so with its definitions. Definitions and Namespaces among the
// templates are in the steps of the component, too, and those of the folder crds before all, as with Helm.
func TestTheStepsOfAComponent(t *testing.T) {
	content := Content{
		Definitions: []*unstructured.Unstructured{object("CustomResourceDefinition", "crd", "")},
		Before: []*unstructured.Unstructured{
			object("ServiceAccount", "account", "0"), object("Role", "role", "0 hook-succeeded"), object("PersistentVolumeClaim", "data", "0 hook-succeeded"),
			object("CustomResourceDefinition", "hooked", "0 hook-succeeded"),
			object("Job", "a", "0 hook-succeeded"), object("Job", "b", "0"), object("Secret", "late", "1"),
		},
		Objects: []*unstructured.Unstructured{object("Service", "own", ""), object("Namespace", "space", "")},
		After:   []*unstructured.Unstructured{object("Job", "after", "0"), object("ConfigMap", "last", "3")},
		Left:    []*unstructured.Unstructured{object("Job", "left", "0")},
	}
	content.Run = "run"
	part := Part{component: component{name: core, spec: v1alpha1.Component{Suspend: true}}, Result: &Result{Inputs: "i", Content: content}}
	s := &system{settings: Settings{ClusterDomain: "cluster.local"}}
	cr := &v1alpha1.SeldonOperator{}
	cr.Namespace = "ns"
	p := s.Render(cr, Facts{Keys: &keys{there: true}, Parts: []Part{part}})
	var got []string
	for _, stage := range p.Stages[1:] { // The first has the generated credentials.
		for _, o := range stage.Objects {
			got = append(got, fmt.Sprintf("%s %s%d %s %t %t %t %s", stage.Name, o.StepOf, o.Step, o.Desired.GetName(), o.Hook, o.DeleteCompleted, o.Suspended,
				o.Desired.GetAnnotations()[keeper.RunAnnotation]))
		}
	}
	want := []string{
		"definitions 0 crd false false true ", "definitions core0 hooked false false true ", "definitions core3 space false false true ",
		"core 0 account false false true ", "core 0 role false true true run", "core 0 data false false true ", "core 0 a true true true run", "core 1 b true false true run", "core 2 late false false true ",
		"core 3 own false false true ",
		"core 4 after true false true run", "core 5 last false false true ",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the plan is\n%s\nand not\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(p.Keep) != 1 || p.Keep[0].Name != "left" {
		t.Errorf("kept are %v", p.Keep)
	}
	if content.Before[1].GetAnnotations()[keeper.RunAnnotation] != "" || content.Before[4].GetAnnotations()[keeper.RunAnnotation] != "" {
		t.Error("what is rendered was changed")
	}
	// A chart without hooks has one step.
	part.Result = &Result{Inputs: "i", Content: Content{Objects: content.Objects}}
	if p := s.Render(cr, Facts{Keys: &keys{there: true}, Parts: []Part{part}}); p.Stages[2].Name != core || p.Stages[2].Objects[0].Step != 0 {
		t.Errorf("%+v", p.Stages[2])
	}
	var names []string
	for _, stage := range p.Stages {
		names = append(names, stage.Name)
	}
	if want := append([]string{stageGenerated, stageDefinitions}, order...); strings.Join(names, " ") != strings.Join(want, " ") {
		t.Errorf("the stages are %v", names)
	}
}

// TestWhatBecomesOfDefinitions: an older chart than before, and the policy Create, leave those that exist as they are.
func TestWhatBecomesOfDefinitions(t *testing.T) {
	recorded := v1alpha1.ComponentStatus{Chart: "chart", Version: "1.5.0", ValuesDigest: "v"}
	for _, c := range []struct{ recorded, chart, version, want string }{
		{"", "chart", "1.5.0", "1.5.0"},
		{"", "chart", "1.4.9", "1.5.0"},
		{"", "chart", "1.10.0", "1.10.0"},
		{"", "other", "1.0.0", "1.0.0"},
		{"2.0.0", "chart", "1.6.0", "2.0.0"},
		{"2.0.0", "chart", "v2.0.1", "v2.0.1"},
		{"no version", "chart", "1.0.0", "1.0.0"},
		{"2.0.0", "chart", "2.0.0-rc.1", "2.0.0"},
	} {
		recorded.DefinitionsVersion = c.recorded
		if got := definitionsVersion(recorded, c.chart, c.version); got != c.want {
			t.Errorf("after %s, %s %s is %s", c.recorded, c.chart, c.version, got)
		}
	}
	if got := definitionsVersion(v1alpha1.ComponentStatus{Chart: "chart", Version: "2.0.0"}, "chart", "1.0.0"); got != "1.0.0" {
		t.Errorf("of a chart that was not rendered yet, it is %s", got)
	}
	crd := definition("crd")
	for policy, want := range map[string]struct{ there, left, warned bool }{
		" 1.0.0": {true, false, false}, " 2.0.0": {true, true, true}, "CreateReplace 1.0.0": {true, false, false}, "CreateReplace 2.0.0": {true, true, true},
		"Create 1.0.0": {true, true, false}, "Create 2.0.0": {true, true, false}, "Skip 1.0.0": {}, "Skip 2.0.0": {},
	} {
		name, newest, _ := strings.Cut(policy, " ")
		part := Part{
			component: component{name: core, spec: v1alpha1.Component{CRDs: v1alpha1.CRDPolicy(name)}},
			Result:    &Result{Inputs: "i", Content: Content{Version: "1.0.0", DefinitionsVersion: newest, Definitions: []*unstructured.Unstructured{crd}}},
		}
		p := (&system{}).Render(&v1alpha1.SeldonOperator{}, Facts{Keys: &keys{there: true}, Parts: []Part{part}})
		objects := p.Stages[1].Objects
		if (len(objects) == 1) != want.there || want.there && objects[0].IfNotPresent != want.left || len(p.Warnings) > 0 != want.warned || len(part.all()) != len(objects) {
			t.Errorf("%s: %v, warnings %q, %d objects of the component", policy, objects, p.Warnings, len(part.all()))
		}
	}
}

func definition(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}}
	u.SetName(name)
	return u
}

// TestWhatBecomesOfDefinitionsAmongTemplates: the policy is not for them, as with Helm, but an older chart and a rollback leave them, too.
// Namespaces lose nothing.
func TestWhatBecomesOfDefinitionsAmongTemplates(t *testing.T) {
	space := object("Namespace", "space", "")
	for _, policy := range []v1alpha1.CRDPolicy{"", v1alpha1.ReplaceDefinitions, v1alpha1.CreateDefinitions, v1alpha1.SkipDefinitions} {
		for name, c := range map[string]struct {
			newest       string
			failed       *v1alpha1.ComponentRevision
			left, warned bool
		}{
			"the newest": {"1.0.0", nil, false, false}, "an older one": {"2.0.0", nil, true, true},
			"a rollback": {"1.0.0", &v1alpha1.ComponentRevision{Revision: 2}, true, false},
		} {
			part := Part{
				component: component{name: core, spec: v1alpha1.Component{CRDs: policy}}, Rollback: Rollback{Failed: c.failed},
				Result: &Result{Inputs: "i", Content: Content{
					Version: "1.0.0", DefinitionsVersion: c.newest, Objects: []*unstructured.Unstructured{definition("crd"), space},
				}},
			}
			p := (&system{}).Render(&v1alpha1.SeldonOperator{}, Facts{Keys: &keys{there: true}, Parts: []Part{part}})
			objects := p.Stages[1].Objects
			if len(objects) != 2 || objects[0].IfNotPresent != c.left || objects[1].IfNotPresent || len(p.Warnings) > 0 != c.warned {
				t.Errorf("%q, %s: %+v, warnings %q", policy, name, objects, p.Warnings)
			}
		}
	}
}
