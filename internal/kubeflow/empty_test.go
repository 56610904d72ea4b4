package kubeflow

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
)

// TestAnApplicationWithoutObjectsKeepsWhatItMade: one that failed has its objects of before, and problems forbid its pruning.
func TestAnApplicationWithoutObjectsKeepsWhatItMade(t *testing.T) {
	for name, c := range map[string]struct {
		application Application
		keeps       bool
	}{
		"it renders nothing": {application: Application{}, keeps: true},
		"it failed":          {application: Application{Error: "no file"}},
		"it has one":         {application: Application{Objects: []*unstructured.Unstructured{{}}}},
	} {
		content := Content{Applications: []Application{c.application}, Spec: []kubeflowv1.Application{{Name: "one"}}}
		if got := stage(content, []string{"one"}, 0, "", nil); got.KeepsPruned != c.keeps || got.Suspended {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
