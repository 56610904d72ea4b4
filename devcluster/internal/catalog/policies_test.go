package catalog

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install" // Knows the versions of the kinds.
	"k8s.io/kubernetes/pkg/apis/admissionregistration/validation"
)

// TestPoliciesAreValid: an API server takes every policy, and compiles its expressions.
func TestPoliciesAreValid(t *testing.T) {
	entries, err := policies.ReadDir("policies")
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{strings.ReplaceAll(probe, "NAME", "x")}
	for _, e := range entries {
		text, err := policies.ReadFile("policies/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	for _, text := range texts {
		found, err := decode(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range found {
			raw, err := u.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			o, err := runtime.Decode(legacyscheme.Codecs.UniversalDecoder(admissionregistration.SchemeGroupVersion), raw)
			if err != nil {
				t.Fatalf("%s: %v", u.GetName(), err)
			}
			var errs field.ErrorList
			switch p := o.(type) {
			case *admissionregistration.ValidatingAdmissionPolicy:
				errs = validation.ValidateValidatingAdmissionPolicy(p)
			case *admissionregistration.MutatingAdmissionPolicy:
				errs = validation.ValidateMutatingAdmissionPolicy(p)
			}
			for _, err := range errs {
				t.Errorf("%s %s: %v", u.GetKind(), u.GetName(), err)
			}
		}
	}
}
