package cluster

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// warned keeps the warnings of the API server.
type warned struct{ texts []string }

// HandleWarningHeader is called with each warning of an answer.
func (w *warned) HandleWarningHeader(_ int, _, text string) { w.texts = append(w.texts, text) }

// Strictly creates an object, applies it twice, and fails the test unless the API server takes it without a warning, stores
// every value of it, and changes nothing by the second apply.
func (c *Cluster) Strictly(t testing.TB, u *unstructured.Unstructured) {
	t.Helper()
	warnings := &warned{}
	config := rest.CopyConfig(c.Config)
	config.WarningHandler = warnings
	strict, err := client.New(config, client.Options{Scheme: Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	at := u.GetKind() + " " + u.GetName()
	ctx := t.Context()
	if err := strict.Create(ctx, u.DeepCopy(), client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
		t.Errorf("%s is refused: %v", at, err)
		return
	}
	var first *unstructured.Unstructured
	for range 2 {
		stored := u.DeepCopy()
		if err := strict.Apply(ctx, client.ApplyConfigurationFromUnstructured(stored), client.FieldOwner(FieldManager)); err != nil {
			t.Errorf("%s cannot be applied: %v", at, err)
			return
		}
		if first == nil {
			first = stored
		} else if first.GetGeneration() != stored.GetGeneration() {
			t.Errorf("%s: the second apply changed it: %v, then %v", at, first.Object, stored.Object)
		}
		if missing := lost(u.Object, stored.Object, ""); missing != "" {
			t.Errorf("%s: what is stored is another: %s", at, missing)
		}
	}
	if len(warnings.texts) > 0 {
		t.Errorf("%s: the API server warns: %q", at, warnings.texts)
	}
}

// lost is the first declared value that is not stored.
func lost(declared, stored any, path string) string {
	switch d := declared.(type) {
	case map[string]any:
		s, ok := stored.(map[string]any)
		if !ok {
			return path
		}
		for key, value := range d {
			if missing := lost(value, s[key], path+"."+key); missing != "" {
				return missing
			}
		}
		return ""
	case []any:
		s, ok := stored.([]any)
		if !ok || len(s) != len(d) {
			return path
		}
		for i := range d {
			if missing := lost(d[i], s[i], fmt.Sprintf("%s[%d]", path, i)); missing != "" {
				return missing
			}
		}
		return ""
	default:
		if declared != stored {
			return path
		}
		return ""
	}
}
