package kubeflow

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/bounded"
	"mlkeeper.dev/internal/origin"
	"mlkeeper.dev/internal/rendering"
	"mlkeeper.dev/internal/source"
)

var testNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func custom(applications ...string) *kubeflowv1.KfDef {
	cr := &kubeflowv1.KfDef{}
	cr.Name, cr.Namespace, cr.UID, cr.Generation = "kf", "kubeflow", "uid", 1
	for _, name := range applications {
		cr.Spec.Applications = append(cr.Spec.Applications, kubeflowv1.Application{
			Name:            name,
			KustomizeConfig: &kubeflowv1.KustomizeConfig{RepoRef: &kubeflowv1.RepoRef{Name: "manifests", Path: name}},
		})
	}
	cr.Spec.Repos = []kubeflowv1.Repo{{Name: "manifests", URI: "https://example.test/manifests.tar.gz"}}
	return cr
}

func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func definition(group, kind, scope string) *unstructured.Unstructured {
	u := object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", strings.ToLower(kind)+"s."+group)
	u.Object["spec"] = map[string]any{"group": group, "scope": scope, "names": map[string]any{"kind": kind}}
	return u
}

// two are two applications that share a ConfigMap.
func two() Facts {
	facts := Facts{
		Current: true,
		Result: &Result{Inputs: "inputs", Sources: []rendering.Revision{{Name: "manifests", Digest: "sha256:1"}}, Content: Content{
			Spec: custom("first", "Second App!").Spec.Applications,
			Applications: []Application{
				{Name: "first", Objects: []*unstructured.Unstructured{
					object("v1", "Namespace", "", "kubeflow"), definition("x.io", "Wide", "Cluster"), definition("x.io", "Narrow", "Namespaced"),
					object("v1", "ConfigMap", "", "shared"), object("v1", "PersistentVolumeClaim", "other", "data"),
				}},
				{Name: "Second App!", Objects: []*unstructured.Unstructured{
					object("v1", "ConfigMap", "kubeflow", "shared"), object("x.io/v1", "Wide", "kubeflow", "w"), object("x.io/v1", "Narrow", "", "n"),
					object("autoscaling/v2", "HorizontalPodAutoscaler", "", "hpa"), object("unknown.io/v1", "Thing", "", "t"),
				}, Warnings: bounded.Warnings{Texts: []string{"something was ignored"}}},
			},
		}},
		Namespaced: map[schema.GroupKind]bool{
			{Kind: "Namespace"}: false, {Kind: "ConfigMap"}: true, {Kind: "PersistentVolumeClaim"}: true,
			{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: false,
			{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:           true,
		},
	}
	scopes(facts.Result, facts.Namespaced)
	return facts
}

func TestRenderPutsObjectsIntoStages(t *testing.T) {
	facts := two()
	p := New(Settings{}).Render(custom("first", "Second App!"), facts)
	var got []string
	for _, stage := range p.Stages {
		got = append(got, stage.Name+":")
		for _, o := range stage.Objects {
			text := o.Key().String()
			for word, set := range map[string]bool{"adopt": o.Adopt, "retain": o.Retain, "informational": o.IgnoreHealth} {
				if set {
					text += " " + word
				}
			}
			got = append(got, text)
		}
	}
	want := []string{
		"definitions:", "Namespace kubeflow adopt", "CustomResourceDefinition wides.x.io", "CustomResourceDefinition narrows.x.io",
		"first:", "ConfigMap kubeflow/shared", "PersistentVolumeClaim other/data retain",
		"second-app-aa601f5f:", "Wide w", "Narrow kubeflow/n", "HorizontalPodAutoscaler kubeflow/hpa informational", "Thing kubeflow/t",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(p.Warnings) != 1 || !strings.HasPrefix(p.Warnings[0], "Second App!: ") {
		t.Errorf("warnings %v", p.Warnings)
	}
	if o := facts.Result.Content.Applications[1].Objects[1]; o.GetNamespace() != "kubeflow" {
		t.Error("the facts were changed")
	}
}

func TestRenderReportsWhatFailed(t *testing.T) {
	facts := two()
	facts.Result.Content.Applications[0].Error = "no such folder"
	p := New(Settings{}).Render(custom("first", "Second App!"), facts)
	if got := controllertest.Reasons(p); got != "Terminal ApplicationFailed" || p.Problems[0].Field != "spec.applications[0]" {
		t.Errorf("problems %+v", p.Problems)
	}
	if len(p.Stages) != 3 || len(p.Stages[2].Objects) == 0 {
		t.Error("the other application is not rendered")
	}
	for class, want := range map[plan.Class]string{plan.Waiting: "Waiting Unreachable", plan.Terminal: "Terminal Unreachable"} {
		f := Facts{Result: &Result{Failure: &plan.Problem{Class: class, Reason: source.ReasonUnreachable}}}
		if got := controllertest.Reasons(New(Settings{}).Render(custom(), f)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	cr := custom("first", "Second App!")
	cr.Spec.Plugins = []kubeflowv1.Plugin{{Kind: "KfGcpPlugin"}}
	if p := New(Settings{}).Render(cr, two()); !strings.Contains(strings.Join(p.Warnings, "\n"), "KfGcpPlugin is not run") {
		t.Errorf("warnings %v", p.Warnings)
	}
}

// TestTheFailureOfAnotherSpecIsNotTold: while a correction is rendered, what was wrong before it is not told as what is wrong with it.
func TestTheFailureOfAnotherSpecIsNotTold(t *testing.T) {
	facts := two()
	facts.Result.Content.Applications[0].Error = "no such folder"
	facts.Pending, facts.Current = true, false
	p := New(Settings{}).Render(custom("first", "Second App!"), facts)
	if got := controllertest.Reasons(p); got != "Waiting "+plan.ReasonFetching {
		t.Errorf("problems %s", got)
	}
	if len(p.Stages) != 3 || len(p.Stages[2].Objects) == 0 {
		t.Error("what was rendered is not declared any more")
	}
}

func TestWithoutTrustNothingIsFetched(t *testing.T) {
	c := controllertest.New(testNow)
	_, err := New(Settings{}).Gather(t.Context(), c, custom("first"))
	var problem plan.Problem
	if !errors.As(err, &problem) || problem.Class != plan.Terminal || problem.Reason != controller.ReasonServiceAccountRequired || len(c.Asked) > 0 {
		t.Errorf("error %v, asked %v", err, c.Asked)
	}
}

func TestAnotherSpecIsAnotherJob(t *testing.T) {
	base := custom("first")
	for name, change := range map[string]func(*kubeflowv1.KfDef){
		"repository":  func(cr *kubeflowv1.KfDef) { cr.Spec.Repos[0].URI += "2" },
		"application": func(cr *kubeflowv1.KfDef) { cr.Spec.Applications[0].Name = "other" },
		"image": func(cr *kubeflowv1.KfDef) {
			cr.Spec.Applications[0].Images = []kubeflowv1.Image{{Name: "a", NewTag: "b"}}
		},
		"rendering": func(cr *kubeflowv1.KfDef) { cr.Spec.Rendering = renderingKustomize },
		"uid":       func(cr *kubeflowv1.KfDef) { cr.UID = "another" },
	} {
		cr := base.DeepCopy()
		change(cr)
		if inputsOf(cr, nil) == inputsOf(base, nil) {
			t.Errorf("another %s is the same job", name)
		}
	}
	labelled := base.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	if inputsOf(labelled, nil) != inputsOf(base, nil) {
		t.Error("a label is another job")
	}
	if versionsOf([]rendering.Source{{Origin: origin.Origin{Versions: []string{"uid/2"}}}}) == versionsOf([]rendering.Source{{Origin: origin.Origin{Versions: []string{"uid/1"}}}}) {
		t.Error("another content of a Secret is the same job")
	}
}

// refusing is a Fetcher that fails.
type refusing struct{ err error }

func (r refusing) Fetch(context.Context, source.Request) (*source.Artifact, error) { return nil, r.err }

func (r refusing) FetchChart(context.Context, source.ChartRequest) (*source.Artifact, error) {
	return nil, r.err
}

func (r refusing) Unpack(context.Context, string, []byte) (*source.Artifact, error) {
	return nil, r.err
}

func TestGatherAsksAndWaits(t *testing.T) {
	failing := &source.Error{Class: source.Transient, Reason: source.ReasonServerError, Message: "500"}
	s := New(Settings{Trusted: true, Sources: refusing{failing}})
	c := controllertest.New(testNow)
	_, err := s.Gather(t.Context(), c, custom("first"))
	var problem plan.Problem
	if !errors.As(err, &problem) || problem.Class != plan.Waiting || problem.Reason != plan.ReasonFetching || len(c.Asked) != 1 || c.Asked[0].Every != controller.Once {
		t.Fatalf("error %v, asked %+v", err, c.Asked)
	}
	result, _ := c.Asked[0].Job(t.Context(), nil).(*Result)
	if result == nil || result.Failure == nil || result.Failure.Class != plan.Waiting || result.Failure.Reason != source.ReasonServerError || result.Failure.Field != "spec.repos[0].uri" {
		t.Fatalf("result %+v", result)
	}
	c.Answers = map[string]any{c.Asked[0].Name: result}
	if _, err := s.Gather(t.Context(), c, custom("first")); err != nil {
		t.Fatal(err)
	}
}

func TestProject(t *testing.T) {
	facts := two()
	key := func(group, kind, namespace, name string) plan.Key {
		return plan.Key{GroupKind: schema.GroupKind{Group: group, Kind: kind}, Namespace: namespace, Name: name}
	}
	current := controller.State{Observed: &observe.Object{Health: health.Result{Status: health.Current}}, Current: true}
	there := controller.State{Observed: &observe.Object{Health: health.Result{Status: health.InProgress, Message: "soon"}}}
	objects := map[plan.Key]controller.State{}
	for _, a := range facts.Result.Content.Applications {
		for _, o := range a.Objects {
			objects[plan.KeyIn(o, "kubeflow", facts.Namespaced)] = current
		}
	}
	objects[key("autoscaling", "HorizontalPodAutoscaler", "kubeflow", "hpa")] = there
	objects[key("x.io", "Narrow", "kubeflow", "n")] = there
	delete(objects, key("unknown.io", "Thing", "kubeflow", "t"))
	cr := custom("first", "Second App!")
	verdict := New(Settings{}).Project(cr, facts, controller.ObservedState{Objects: objects, Now: testNow, Waiting: "waiting for something"})
	first, second := cr.Status.Applications[0], cr.Status.Applications[1]
	if first.Phase != phaseReady || first.Objects != 5 || first.Ready != 5 || first.Message != "" {
		t.Errorf("%+v", first)
	}
	if second.Phase != phaseProgressing || second.Objects != 5 || second.Ready != 3 || second.Message != "waiting for Narrow kubeflow/n: soon" {
		t.Errorf("%+v", second)
	}
	if cr.Status.ApplicationsReady != "1/2" || verdict.Progress != "1/2 applications ready" || cr.Status.ReposCache[0].Revision != "sha256:1" {
		t.Errorf("%+v %+v", cr.Status, verdict)
	}
	for name, c := range map[string]struct {
		seen controller.ObservedState
		want string
	}{
		"waiting": {controller.ObservedState{Now: testNow, Waiting: "w"}, ConditionPending},
		"ready":   {controller.ObservedState{Now: testNow, Ready: true}, ConditionAvailable},
		"problem": {controller.ObservedState{Now: testNow, Problems: []plan.Problem{{Message: "m"}}}, ConditionDegraded},
	} {
		New(Settings{}).Project(cr, Facts{Result: &Result{Failure: &plan.Problem{}}}, c.seen)
		for _, kind := range []string{ConditionAvailable, ConditionDegraded, ConditionPending} {
			if got := meta.IsStatusConditionTrue(cr.Status.Conditions, kind); got != (kind == c.want) {
				t.Errorf("%s: %s is %v", name, kind, got)
			}
		}
		if len(cr.Status.Applications) != 2 {
			t.Errorf("%s: what was known of the applications is lost", name)
		}
	}
}
