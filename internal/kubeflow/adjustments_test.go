package kubeflow

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/kustomize"
)

// TestValuesOfVariables holds which value wins, and what is waited for.
func TestValuesOfVariables(t *testing.T) {
	cluster := controllertest.New(testNow)
	config := object("v1", "ConfigMap", "kubeflow", "values")
	config.Object["data"] = map[string]any{"A": "of the ConfigMap", "B": "of the ConfigMap", "C": "of the ConfigMap"}
	secret := object("v1", "Secret", "kubeflow", "login")
	secret.Object["data"] = map[string]any{"B": base64.StdEncoding.EncodeToString([]byte("of the Secret")), "C": "bm8="}
	cluster.Put(config)
	cluster.Put(secret)
	cr := custom("first", "second")
	cr.Spec.Applications[1].PostBuild = &kubeflowv1.PostBuild{
		Substitute: map[string]string{"C": "of the spec"},
		SubstituteFrom: []kubeflowv1.SubstituteReference{
			{Kind: "ConfigMap", Name: "values"}, {Kind: "Secret", Name: "login"}, {Kind: "Secret", Name: "absent", Optional: true},
		},
	}
	got, err := variablesOf(t.Context(), cluster, cr, "")
	want := variables{1: {"A": "of the ConfigMap", "B": "of the Secret", "C": "of the spec"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (%v)", diff, err)
	}
	if inputsOf(cr, got) == inputsOf(cr, variables{1: {"A": "another"}}) {
		t.Error("another value is the same input")
	}
	cr.Spec.Applications[1].PostBuild.SubstituteFrom[2].Optional = false
	var problem plan.Problem
	if _, err = variablesOf(t.Context(), cluster, cr, ""); !errors.As(err, &problem) || problem.Class != plan.Waiting ||
		problem.Reason != "SecretNotFound" || problem.Field != "spec.applications[1].postBuild.substituteFrom[2]" || problem.Value != "absent" {
		t.Errorf("%v", err)
	}
	cr.Spec.Applications[1].PostBuild.SubstituteFrom = nil
	cr.Spec.Applications[1].PostBuild.Substitute = nil
	if got, err = variablesOf(t.Context(), cluster, cr, ""); err != nil || got[0] != nil || got[1] == nil {
		t.Errorf("without values: %v (%v)", got, err)
	}
}

// TestValuesOfVariablesAreBounded has applications name the same large Secret, of which each holds the values.
func TestValuesOfVariablesAreBounded(t *testing.T) {
	cluster := controllertest.New(testNow)
	secret := object("v1", "Secret", "kubeflow", "large")
	secret.Object["data"] = map[string]any{"A": base64.StdEncoding.EncodeToString(make([]byte, 1<<20))}
	cluster.Put(secret)
	names := strings.Split("abcdefgh", "")
	cr := custom(names...)
	for i := range names {
		cr.Spec.Applications[i].PostBuild = &kubeflowv1.PostBuild{SubstituteFrom: []kubeflowv1.SubstituteReference{{Kind: "Secret", Name: "large"}}}
	}
	var problem plan.Problem
	if _, err := variablesOf(t.Context(), cluster, cr, ""); !errors.As(err, &problem) || problem.Class != plan.Terminal ||
		problem.Reason != reasonApplicationFailed || problem.Field != "spec.applications[7].postBuild.substituteFrom[0]" {
		t.Errorf("%v", err)
	}
	cr.Spec.Applications[7].PostBuild = nil
	if got, err := variablesOf(t.Context(), cluster, cr, ""); err != nil || len(got) != 7 {
		t.Errorf("%d applications, %v", len(got), err)
	}
}

// TestValuesAreReadAsTheServiceAccount holds that nobody has what he may not read substituted.
func TestValuesAreReadAsTheServiceAccount(t *testing.T) {
	cluster := controllertest.New(testNow)
	cluster.Put(object("v1", "Secret", "kubeflow", "login"))
	const user = "system:serviceaccount:kubeflow:nobody"
	cluster.Denied = map[string]bool{user: true}
	cr := custom("first")
	cr.Spec.Applications[0].PostBuild = &kubeflowv1.PostBuild{
		SubstituteFrom: []kubeflowv1.SubstituteReference{{Kind: "Secret", Name: "login", Optional: true}},
	}
	if _, err := variablesOf(t.Context(), cluster, cr, user); err == nil {
		t.Error("a Secret is read with the rights of the operator")
	}
}

// TestAValueOfAVariableIsAnInput holds that pods which restart for another value are no rollout of the operator's: that would take a turn
// of others, and wait for one.
func TestAValueOfAVariableIsAnInput(t *testing.T) {
	m := newManager(t)
	m.put(selfContained)
	m.cr.Spec.Rendering = renderingKustomize
	m.cr.Spec.Applications[0].PostBuild = &kubeflowv1.PostBuild{
		SubstituteFrom: []kubeflowv1.SubstituteReference{{Kind: "ConfigMap", Name: "values"}},
	}
	seen := map[string]bool{}
	for _, value := range []string{"one", "two", "two"} {
		config := object("v1", "ConfigMap", "kubeflow", "values")
		config.Object["data"] = map[string]any{"A": value}
		m.cluster.Put(config)
		p, _ := m.reconcile()
		if len(p.Problems) > 0 {
			t.Fatal(p.Problems)
		}
		seen[p.Inputs] = true
	}
	if len(seen) != 2 {
		t.Errorf("two values are the inputs %v", seen)
	}
}

// TestAdjustmentsOfASpec holds that every field reaches the rendering.
func TestAdjustmentsOfASpec(t *testing.T) {
	a := kubeflowv1.Application{
		KustomizeConfig: &kubeflowv1.KustomizeConfig{Components: []string{"c"}},
		Adjustments: kubeflowv1.Adjustments{
			Patches: []keeper.Patch{{Patch: "p"}, {Patch: "q", Target: &keeper.PatchTarget{
				Group: "g", Version: "v", Kind: "k", Namespace: "s", Name: "n", AnnotationSelector: "a", LabelSelector: "l",
			}}},
			TargetNamespace: "t", NamePrefix: "pre", NameSuffix: "suf",
			CommonMetadata: &keeper.CommonMetadata{Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "2"}},
		},
	}
	want := kustomize.Adjustments{
		Components: []string{"c"}, TargetNamespace: "t", NamePrefix: "pre", NameSuffix: "suf",
		Patches: []kustomize.Patch{{Patch: "p"}, {Patch: "q", Target: &kustomize.Selector{
			Group: "g", Version: "v", Kind: "k", Namespace: "s", Name: "n", AnnotationSelector: "a", LabelSelector: "l",
		}}},
		Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "2"}, Substitute: map[string]string{"x": "y"},
	}
	if diff := cmp.Diff(want, adjustmentsOf(a, map[string]string{"x": "y"})); diff != "" {
		t.Error(diff)
	}
}
