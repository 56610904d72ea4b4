package kubeflow

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
)

func TestArrange(t *testing.T) {
	// Each word is an application and, after a colon, what it depends on.
	for spec, want := range map[string]string{
		"a b c":         "a b c",
		"a:c b c":       "b c a",
		"a:b b:c c d":   "c b a d",
		"a b:a,c c:a d": "a c b d",
		"a:a b":         "b a; a: dependsOn goes in a circle by way of a",
		"a:b b:a c:a d": "d a b c; a: dependsOn goes in a circle by way of b; b: dependsOn goes in a circle by way of a; c waits for application a, whose dependsOn goes in a circle",
		// What only depends on a circle comes after it, and is told what it waits for, by way of others, too.
		"c:b b:a,d d a:a": "d a b c; c waits for application a, whose dependsOn goes in a circle; " +
			"b waits for application a, whose dependsOn goes in a circle; a: dependsOn goes in a circle by way of a",
		// Of two circles each member names its own.
		"a:b,c b:a c:d d:c": "a b c d; a: dependsOn goes in a circle by way of b; b: dependsOn goes in a circle by way of a; " +
			"c: dependsOn goes in a circle by way of d; d: dependsOn goes in a circle by way of c",
		"a:nowhere b":       `a b; a: dependsOn names "nowhere", which is no application of this KfDef`,
		"a:nowhere b:a c:b": `a b c; a: dependsOn names "nowhere", which is no application of this KfDef`,
	} {
		var applications []kubeflowv1.Application
		for _, word := range strings.Fields(spec) {
			name, on, _ := strings.Cut(word, ":")
			a := kubeflowv1.Application{Name: name}
			if on != "" {
				a.DependsOn = strings.Split(on, ",")
			}
			applications = append(applications, a)
		}
		order, wrong, waits := sortByDependencies(applications)
		var names []string
		for _, i := range order {
			names = append(names, applications[i].Name)
		}
		got := strings.Join(names, " ")
		for i, a := range applications {
			if wrong[i] != "" {
				got += fmt.Sprintf("; %s: %s", a.Name, wrong[i])
			}
			if waits[i] != "" {
				got += fmt.Sprintf("; %s waits for %s", a.Name, waits[i])
			}
		}
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", spec, got, want)
		}
	}
}

// four are applications with one ConfigMap each.
func four(change func(map[string]*kubeflowv1.Application)) (*kubeflowv1.KfDef, Facts) {
	cr := custom("a", "b", "c", "d")
	facts := two()
	facts.Result.Content.Applications = nil
	by := map[string]*kubeflowv1.Application{}
	for i := range cr.Spec.Applications {
		one := &cr.Spec.Applications[i]
		by[one.Name] = one
		facts.Result.Content.Applications = append(facts.Result.Content.Applications, Application{
			Name: one.Name, Objects: []*unstructured.Unstructured{object("v1", "ConfigMap", "", "of-"+one.Name)},
		})
	}
	change(by)
	facts.Result.Content.Spec = cr.Spec.Applications
	return cr, facts
}

func TestStagesOfDependentApplications(t *testing.T) {
	no := false
	cr, facts := four(func(by map[string]*kubeflowv1.Application) {
		by["a"].DependsOn = []string{"c"}
		by["b"].DependsOn = []string{"nowhere"}
		by["b"].Wait = true
		by["b"].Timeout = &metav1.Duration{Duration: time.Minute}
		by["d"].DependsOn = []string{"a", "c"}
		by["d"].Prune = &no
	})
	facts.Result.Content.Applications[0].Error = "no such folder"
	p := New(Settings{}).Render(cr, facts)
	var got []string
	for _, s := range p.Stages {
		got = append(got, fmt.Sprintf("%s after %v wait %v hold %q timeout %s retain %v",
			s.Name, s.After, s.WaitHealthy, s.Hold, s.Timeout, len(s.Objects) == 1 && s.Objects[0].Retain))
	}
	want := []string{
		`definitions after [] wait false hold "" timeout 0s retain false`,
		`b after [] wait true hold "dependsOn names \"nowhere\", which is no application of this KfDef" timeout 1m0s retain false`,
		`c after [] wait false hold "" timeout 0s retain false`,
		`a after [c] wait false hold "" timeout 0s retain false`,
		`d after [a c] wait false hold "application a, which failed" timeout 0s retain true`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var fields []string
	for _, problem := range p.Problems {
		fields = append(fields, problem.Field)
	}
	if strings.Join(fields, " ") != "spec.applications[0] spec.applications[1].dependsOn" {
		t.Errorf("problems %v", fields)
	}
}

func TestOrphaning(t *testing.T) {
	cr, facts := four(func(map[string]*kubeflowv1.Application) {})
	cr.Spec.DeletionPolicy = keeper.DeletionOrphan
	for _, s := range New(Settings{}).Render(cr, facts).Stages[1:] {
		if s.Objects[0].Policy() != keeper.Orphan {
			t.Errorf("%s is deleted with the KfDef, or never", s.Name)
		}
	}
}
