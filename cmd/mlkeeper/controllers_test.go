package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// TestEveryControllerNamesItsDefinition compares what each controller calls the resource of its kind with the CustomResourceDefinition that is
// installed: a definition of another name is not found, which the teardown takes for the proof that every custom resource is gone.
func TestEveryControllerNamesItsDefinition(t *testing.T) {
	files, err := filepath.Glob("../../config/crd/*/*_*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	definitions := map[string]apiextensionsv1.CustomResourceDefinitionNames{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		definitions[crd.Name] = crd.Spec.Names
	}
	for _, r := range controllers(settings{}) {
		name := r.Resource() + "." + r.GVK().Group
		if names, found := definitions[name]; !found || names.Kind != r.GVK().Kind || names.Plural != r.Resource() {
			t.Errorf("the controller %s names the definition %s: found %t, with %+v", r.Name(), name, found, names)
		}
	}
}

// TestOnlyTrustyAIServicesAreHandedBack: docs/cli.md says that `mlkeeper hand-back` prepares TrustyAIServices, and the pages of the other
// kinds describe no way back to an original operator.
func TestOnlyTrustyAIServicesAreHandedBack(t *testing.T) {
	var got []string
	for _, r := range controllers(settings{}) {
		if r.Previous().TakesBack {
			got = append(got, r.GVK().Kind)
		}
	}
	if diff := cmp.Diff([]string{"TrustyAIService"}, got); diff != "" {
		t.Errorf("handed back are (-want +got):\n%s", diff)
	}
}
