package engine

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller"
)

// TestTheCacheKeepsLittleOfWhatAuthorsAnnotate: of the metadata of a custom resource the cache keeps what MLKeeper reads, whether the custom
// resource can be decoded or not.
func TestTheCacheKeepsLittleOfWhatAuthorsAnnotate(t *testing.T) {
	s := &stacks[*v1.TrustyAIService, struct{}]{def: controller.Definition[*v1.TrustyAIService]{
		GVK: v1.GroupVersion.WithKind("TrustyAIService"), New: func() *v1.TrustyAIService { return &v1.TrustyAIService{} },
		Annotations: []string{"example.com/read"}, StripFinalizers: []string{"example.com/previous"},
	}}
	marks := map[string]string{keeper.SuspendAnnotation: "true", "example.com/read": "now"}
	written := func() *v1.TrustyAIService {
		cr := &v1.TrustyAIService{ObjectMeta: metav1.ObjectMeta{
			Name: "x", Namespace: "ns", UID: "u", ResourceVersion: "1", Labels: map[string]string{"example.com/label": "x"},
			Annotations: map[string]string{"example.com/note": strings.Repeat("x", 200<<10)}, Finalizers: []string{"example.com/previous"},
		}}
		for name, value := range marks {
			cr.Annotations[name] = value
		}
		for i := range 3000 {
			cr.Finalizers = append(cr.Finalizers, fmt.Sprintf("example.com/%s%d", strings.Repeat("f", 300), i))
			cr.OwnerReferences = append(cr.OwnerReferences, metav1.OwnerReference{Name: strings.Repeat("o", 300)})
		}
		return cr
	}
	check := func(what string, m metav1.Object) {
		t.Helper()
		if !reflect.DeepEqual(m.GetAnnotations(), marks) || !reflect.DeepEqual(m.GetFinalizers(), s.def.StripFinalizers) ||
			len(m.GetLabels())+len(m.GetOwnerReferences()) > 0 {
			t.Errorf("%s: kept are %d annotations, %d finalizers, %d labels, %d owners", what,
				len(m.GetAnnotations()), len(m.GetFinalizers()), len(m.GetLabels()), len(m.GetOwnerReferences()))
		}
	}
	for _, bad := range []bool{false, true} {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(written())
		if err != nil {
			t.Fatal(err)
		}
		if bad {
			content["spec"] = "no object"
		}
		u := &unstructured.Unstructured{Object: content}
		cr, err := s.decode(u)
		if (err != nil) != bad {
			t.Fatalf("bad: %t: %v", bad, err)
		}
		// An informer keeps the argument of a decoder that fails.
		if check("the argument", u); !bad {
			check("the custom resource", cr)
		}
	}
	out := &metav1.PartialObjectMetadata{ObjectMeta: written().ObjectMeta}
	check("the answer to a write", withMetadata(s.kept(), &v1.TrustyAIService{}, out))
}
