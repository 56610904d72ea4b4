package wiring

import (
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// ClaimManager is the field manager of an entry that an original operator had made and that is MLKeeper's since it was adopted. It differs
// from FieldManager, so that an annotation that somebody removes is not replaced by it.
const ClaimManager = "mlkeeper-wiring-adopted"

// Claim is how an adopted entry is recorded in an object whose annotations reach pods: in managedFields, since a new annotation would restart
// them. The API server takes the claim back when somebody else changes or removes the entry.
type Claim struct {
	// Fields are those of the entry, in the form of managedFields.
	Fields map[string]any
	// Entry is the one that an object with these fields has. One that belongs to no custom resource that is alive has no owner.
	Entry func(target *unstructured.Unstructured, alive []client.Object) (Entry, bool)
}

// Recorded returns the record of an object: its annotation, else what is claimed in it.
func (w *Wire) Recorded(target *unstructured.Unstructured, alive []client.Object) (Record, error) {
	r, err := Recorded(target)
	if err != nil || !r.Empty() || !w.claimed(target) {
		return r, err
	}
	if e, ok := w.Claim.Entry(target, alive); ok {
		r.Entries = []Entry{e}
	}
	return r, nil
}

// claimed says that the entry in an object is claimed.
func (w *Wire) claimed(u *unstructured.Unstructured) bool {
	return w.Claim != nil && slices.ContainsFunc(Claims(u), func(one any) bool {
		return reflect.DeepEqual(one.(map[string]any)["fieldsV1"], any(w.Claim.Fields)) //nolint:forcetypeassert // Claims returns maps only.
	})
}

// Claims are the parts of the managedFields of an object with which entries are claimed, for Strip to keep.
func Claims(u *unstructured.Unstructured) []any {
	list, _, _ := unstructured.NestedFieldNoCopy(u.Object, "metadata", "managedFields")
	all, _ := list.([]any)
	var out []any
	for _, one := range all {
		if fields, ok := one.(map[string]any); ok && fields["manager"] == ClaimManager {
			out = append(out, one)
		}
	}
	return out
}

// KeepClaims drops the managedFields of an object but for the claims.
func KeepClaims(u *unstructured.Unstructured) {
	claims := Claims(u)
	if u.SetManagedFields(nil); len(claims) > 0 {
		// The metadata is there, since the claims were in it.
		_ = unstructured.SetNestedSlice(u.Object, claims, "metadata", "managedFields")
	}
}

// record writes into an object what is to be remembered: as a claim where the object has the entry already and no annotation.
func (w *Wire) record(out *unstructured.Unstructured, r Record, edited bool) error {
	kept := slices.DeleteFunc(out.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == ClaimManager })
	if len(kept) != len(out.GetManagedFields()) {
		out.SetManagedFields(kept)
	}
	if _, annotated := out.GetAnnotations()[keeper.WiringAnnotation]; w.Claim == nil || edited || annotated || len(r.Entries) == 0 {
		return setRecord(out, r)
	}
	list, _, _ := unstructured.NestedSlice(out.Object, "metadata", "managedFields")
	list = append(list, map[string]any{
		"manager": ClaimManager, "operation": string(metav1.ManagedFieldsOperationUpdate), "apiVersion": out.GetAPIVersion(),
		"fieldsType": "FieldsV1", "fieldsV1": w.Claim.Fields,
	})
	return unstructured.SetNestedSlice(out.Object, list, "metadata", "managedFields")
}
