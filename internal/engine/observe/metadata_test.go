package observe

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// fill gives an object metadata as large as the API server accepts.
func fill(m metav1.Object) {
	long := strings.Repeat("x", 200<<10)
	m.SetNamespace("ns")
	m.SetName("large")
	m.SetUID("uid")
	m.SetResourceVersion("7")
	m.SetSelfLink(long)
	m.SetAnnotations(map[string]string{
		keeper.SuspendAnnotation: "true", keeper.ReconcileAtAnnotation: long, keeper.WiringAnnotation: long, "example.com/read": "now",
		keeper.AnnotationPrefix + "more": long, "example.com/more": long,
	})
	labels, finalizers, owners := map[string]string{}, []string{}, []metav1.OwnerReference{}
	for i := range 3000 {
		name := fmt.Sprintf("example.com/%s%04d", strings.Repeat("a", 40), i)
		labels[name], finalizers = strings.Repeat("v", 63), append(finalizers, name)
		owners = append(owners, metav1.OwnerReference{APIVersion: "v1", Kind: "K", Name: name, UID: types.UID(name)})
	}
	m.SetLabels(labels)
	m.SetFinalizers(append(finalizers, "example.com/previous"))
	m.SetOwnerReferences(owners)
	m.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "somebody", FieldsV1: metav1.NewFieldsV1("{}")}})
}

// sizeOf is the number of bytes of what users choose.
func sizeOf(m metav1.Object) (size int) {
	for _, texts := range []map[string]string{m.GetAnnotations(), m.GetLabels()} {
		for k, v := range texts {
			size += len(k) + len(v)
		}
	}
	for _, f := range m.GetFinalizers() {
		size += len(f)
	}
	for _, o := range m.GetOwnerReferences() {
		size += len(o.Name) + len(o.UID)
	}
	return size + len(m.GetSelfLink())
}

// TestLittleIsKeptOfTheMetadataOfUsers: what is reduced has what is asked for, and is the same when it is reduced again.
func TestLittleIsKeptOfTheMetadataOfUsers(t *testing.T) {
	kept := Metadata{Annotations: []string{"example.com/read", keeper.WiringAnnotation}, Finalizers: []string{"example.com/previous"}, Labels: true}
	for _, m := range []metav1.Object{&metav1.ObjectMeta{}, &unstructured.Unstructured{Object: map[string]any{}}} {
		fill(m)
		all := maps.Clone(m.GetLabels())
		for range 2 {
			kept.Reduce(m)
			if size, limit := sizeOf(m), MaxRecord+maxLabels+2*maxText; size > limit || len(m.GetManagedFields()) > 0 {
				t.Errorf("%T: %d bytes are kept, more than %d, or managedFields", m, size, limit)
			}
			marks := m.GetAnnotations()
			if len(marks) != 4 || marks[keeper.SuspendAnnotation] != "true" || marks["example.com/read"] != "now" ||
				len(marks[keeper.ReconcileAtAnnotation]) != maxText || len(marks[keeper.WiringAnnotation]) != MaxRecord+1 {
				t.Errorf("%T: of the annotations are kept %d", m, len(marks))
			}
			if !slices.Equal(m.GetFinalizers(), kept.Finalizers) || m.GetName() != "large" || m.GetUID() != "uid" || m.GetResourceVersion() != "7" {
				t.Errorf("%T: a finalizer, the name or the version is lost: %v", m, m.GetFinalizers())
			}
			if !maps.Equal(m.GetLabels(), BoundLabels(all)) || len(m.GetLabels()) == 0 {
				t.Errorf("%T: %d labels are kept, not those that a live object has", m, len(m.GetLabels()))
			}
		}
		if (Metadata{}).Reduce(m); len(m.GetLabels())+len(m.GetFinalizers()) > 0 {
			t.Errorf("%T: labels and finalizers are kept that nobody asks for", m)
		}
	}
	few := map[string]string{"app": "x"}
	if got := BoundLabels(few); !maps.Equal(got, few) {
		t.Errorf("of %v are kept %v", few, got)
	}
	m := &metav1.PartialObjectMetadata{}
	fill(m)
	if m = Identity(m); sizeOf(m) > 0 || m.Namespace != "ns" || m.Name != "large" || m.UID != "uid" || m.ResourceVersion != "7" {
		t.Errorf("kept is %+v", m)
	}
}
