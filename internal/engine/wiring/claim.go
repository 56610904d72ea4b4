package wiring

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// ClaimManager is the field manager of an entry that an original operator had made and that is MLKeeper's since it was adopted. It differs
// from FieldManager, so that an annotation that somebody removes is not replaced by it. The name of a claim that says what it is for goes on with a
// hyphen and a word of Claim.Words.
const ClaimManager = "mlkeeper-wiring-adopted"

// Claim is how an adopted entry is recorded in an object whose annotations reach pods: in managedFields, since a new annotation would restart
// them. The API server takes the claim back when somebody else changes or removes the entry.
type Claim struct {
	// Fields are those of the entry, in the form of managedFields.
	Fields map[string]any
	// Words are those for the details of entries, since what an entry looks like does not tell its detail once the custom resource has changed.
	Words map[string]string
	// Entry is the one that an object with these fields has. One that belongs to no custom resource that is alive has no owner. The detail is the
	// one that was claimed, empty for a claim of an earlier build, which does not say it.
	Entry func(target *unstructured.Unstructured, alive []client.Object, detail string) (Entry, bool)
}

// Recorded returns the record of an object: its annotation, else what is claimed in it.
func (w *Wire) Recorded(target *unstructured.Unstructured, alive []client.Object) (Record, error) {
	r, err := Recorded(target)
	if err != nil || !r.Empty() {
		return r, err
	}
	detail, claimed := w.claimed(target)
	if !claimed {
		return r, nil
	}
	if e, ok := w.Claim.Entry(target, alive, detail); ok {
		r.Entries = []Entry{e}
	}
	return r, nil
}

// claimed says that the entry in an object is claimed, and for which detail; empty where no claim says that.
func (w *Wire) claimed(u *unstructured.Unstructured) (detail string, claimed bool) {
	if w.Claim == nil {
		return "", false
	}
	for _, one := range Claims(u) {
		fields, _ := one.(map[string]any)
		if !reflect.DeepEqual(fields["fieldsV1"], any(w.Claim.Fields)) {
			continue
		}
		claimed = true
		for of := range w.Claim.Words {
			if fields["manager"] == w.Claim.manager(of) {
				detail = of
			}
		}
	}
	return detail, claimed
}

// manager is the field manager of the claim of an entry.
func (c *Claim) manager(detail string) string {
	if word := c.Words[detail]; word != "" {
		return ClaimManager + "-" + word
	}
	return ClaimManager
}

// isClaim says that a field manager is that of a claim.
func isClaim(manager string) bool {
	return manager == ClaimManager || strings.HasPrefix(manager, ClaimManager+"-")
}

// Claims are the parts of the managedFields of an object with which entries are claimed, for Strip to keep.
func Claims(u *unstructured.Unstructured) []any {
	list, _, _ := unstructured.NestedFieldNoCopy(u.Object, "metadata", "managedFields")
	all, _ := list.([]any)
	var out []any
	for _, one := range all {
		fields, _ := one.(map[string]any)
		if manager, _ := fields["manager"].(string); isClaim(manager) {
			out = append(out, one)
		}
	}
	return out
}

const (
	// maxClaims and maxClaim are the number of the claims that are kept of an object, and the bytes of each. A wire makes one, of the fields of
	// one entry; whoever may write the object may write others under its field manager.
	maxClaims = 8
	maxClaim  = 1 << 10
)

// KeepClaims drops the managedFields of an object but for the claims, as far as they can be MLKeeper's.
func KeepClaims(u *unstructured.Unstructured) {
	claims := slices.DeleteFunc(Claims(u), func(one any) bool {
		raw, err := json.Marshal(one)
		return err != nil || len(raw) > maxClaim
	})
	claims = claims[:min(len(claims), maxClaims)]
	if u.SetManagedFields(nil); len(claims) > 0 {
		// The metadata is there, since the claims were in it.
		_ = unstructured.SetNestedSlice(u.Object, claims, "metadata", "managedFields")
	}
}

// record writes into an object what is to be remembered: as a claim where the object has the entry already and no annotation.
func (w *Wire) record(out *unstructured.Unstructured, r Record, edited bool) error {
	kept := slices.DeleteFunc(out.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return isClaim(e.Manager) })
	if len(kept) != len(out.GetManagedFields()) {
		out.SetManagedFields(kept)
	}
	if _, annotated := out.GetAnnotations()[keeper.WiringAnnotation]; w.Claim == nil || edited || annotated || len(r.Entries) == 0 {
		return setRecord(out, r)
	}
	list, _, _ := unstructured.NestedSlice(out.Object, "metadata", "managedFields")
	list = append(list, map[string]any{
		"manager": w.Claim.manager(r.Entries[0].Detail), "operation": string(metav1.ManagedFieldsOperationUpdate), "apiVersion": out.GetAPIVersion(),
		"fieldsType": "FieldsV1", "fieldsV1": w.Claim.Fields,
	})
	return unstructured.SetNestedSlice(out.Object, list, "metadata", "managedFields")
}
