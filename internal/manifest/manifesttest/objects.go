package manifesttest

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/resmap"
)

// Objects are what kustomize has rendered, as kustomize v3.2.0 held them, and so kfctl. They are read from its nodes: MarshalJSON and AsYAML of
// today's kustomize write an object as YAML first, and that adds empty lines to folded texts.
func Objects(t testing.TB, result resmap.ResMap) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for _, r := range result.Resources() {
		content, err := r.Map()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(raw); err != nil {
			t.Fatal(err)
		}
		out = append(out, u)
	}
	return out
}
