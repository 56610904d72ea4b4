package pack

import (
	"reflect"
	"testing"
	"time"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

func object() *keeper.Inventory {
	one := keeper.InventoryEntry{UID: "uid", AppliedHash: "digest", Policy: keeper.Retain}
	one.Kind, one.Name = "Service", "name"
	return &keeper.Inventory{
		ObjectMeta: metav1.ObjectMeta{
			Name: "name", Labels: map[string]string{"a": "b", "name": "uid"}, Annotations: map[string]string{}, Finalizers: []string{"f", ""},
			CreationTimestamp: metav1.NewTime(time.Unix(1, 0)), DeletionGracePeriodSeconds: ptr.To(int64(3)),
			OwnerReferences: []metav1.OwnerReference{{Kind: "K", UID: "uid", Controller: ptr.To(true)}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1("{}")}},
		},
		Spec:   keeper.InventorySpec{Owner: keeper.InventoryOwner{Name: "name"}, Entries: []keeper.InventoryEntry{one, one}},
		Status: keeper.InventoryStatus{Entries: []keeper.InventoryEntry{one}},
	}
}

func TestObjectsSayTheSame(t *testing.T) {
	got := object()
	Object(got)
	if want := object(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, not %+v", got, want)
	}
	// All strings are in one piece of memory, equal ones at one place.
	at := func(s string) uintptr { return uintptr(unsafe.Pointer(unsafe.StringData(s))) }
	if at(got.Name) != at(got.Spec.Owner.Name) || at(got.Spec.Entries[0].AppliedHash) != at(got.Status.Entries[0].AppliedHash) {
		t.Error("equal strings do not share their place")
	}
	if distance := int64(at(got.Spec.Entries[0].AppliedHash)) - int64(at(got.Name)); distance < -200 || distance > 200 {
		t.Errorf("two strings are %d bytes apart", distance)
	}
	Object(&keeper.Inventory{})
	Object((*keeper.Inventory)(nil))
	Object(&intstr.IntOrString{StrVal: "x"})
}

func FuzzStrings(f *testing.F) {
	f.Add("a", "", "aa", "a")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		want := []string{a, b, c, d}
		Strings(&a, &b, &c, &d)
		if got := []string{a, b, c, d}; !reflect.DeepEqual(got, want) {
			t.Errorf("%q, not %q", got, want)
		}
	})
}
