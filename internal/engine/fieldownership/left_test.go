package fieldownership

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// TestLeft names fields by JSON pointers: those below a map or a list, entries of lists by their number, and names with slashes.
func TestLeft(t *testing.T) {
	desired := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"example.com/key": "v", "keeper.mlkeeper.dev/owner": "o"}},
		"spec": map[string]any{"replicas": int64(1), "containers": []any{
			map[string]any{"name": "a", "image": "i"}, map[string]any{"name": "b", "image": "i"},
		}},
	}}
	key := fieldpath.KeyByFields("name", "b")
	for _, c := range []struct {
		path    fieldpath.Path
		pointer string
		ignored bool
	}{
		{fieldpath.MakePathOrDie("spec", "replicas"), "/spec/replicas", true},
		{fieldpath.MakePathOrDie("spec", "replicas"), "/spec", true},
		{fieldpath.MakePathOrDie("spec", "replicas"), "/spec/rep", false},
		{fieldpath.MakePathOrDie("spec", "containers", key, "image"), "/spec/containers/1/image", true},
		{fieldpath.MakePathOrDie("spec", "containers", key, "image"), "/spec/containers/0", false},
		{fieldpath.MakePathOrDie("metadata", "annotations", "example.com/key"), "/metadata/annotations/example.com~1key", true},
		{fieldpath.MakePathOrDie("metadata", "annotations", "example.com/key"), "/metadata/annotations/example.com/key", false},
	} {
		ignored, rest, by := Left(desired, []Field{{Path: c.path}}, []string{"/other", c.pointer})
		if len(ignored)+len(rest) != 1 || (len(ignored) == 1) != c.ignored || c.ignored && (len(by) != 1 || by[0] != c.pointer) {
			t.Errorf("%s and %s: %v, %v", c.path, c.pointer, ignored, rest)
		}
	}
	mark := Field{Path: fieldpath.MakePathOrDie("metadata", "annotations", "keeper.mlkeeper.dev/owner")}
	if ignored, rest, _ := Left(desired, []Field{mark}, []string{"/metadata"}); len(ignored)+len(rest) > 0 {
		t.Errorf("MLKeeper's own mark: %v, %v", ignored, rest)
	}
}
