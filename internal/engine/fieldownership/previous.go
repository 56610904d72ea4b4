package fieldownership

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

// PreviousManagers returns those of the field managers that wrote an object as the previous operator. The name alone proves nothing:
// every operator that Kubebuilder scaffolds is called manager. A manager counts if it made one of the owners an owner of the object. All
// of them do if the object has the previous operator's mark, or if MLKeeper itself has recorded whose it was: by declaring a part
// only, or by releasing it before it has declared anything. self is MLKeeper's own field manager.
func PreviousManagers(live *unstructured.Unstructured, names []string, owners []plan.Owner, mark plan.Mark, self string) []string {
	marks := live.GetAnnotations()
	if mark.Of(marks) || marks[keeper.PartialAnnotation] != "" || released(live, self) {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !slices.ContainsFunc(live.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
			return e.Manager == name && e.Subresource == "" && setsOwner(fieldsOf(&e), owners)
		})
	})
}

// released says that MLKeeper has marked the object and declared nothing of it: the reference to the owner is already gone.
func released(live *unstructured.Unstructured, self string) bool {
	own := held(live.GetManagedFields(), self)
	if own.Empty() || live.GetAnnotations()[keeper.OwnerAnnotation] == "" {
		return false
	}
	metadata := fieldpath.MakePathOrDie("metadata")
	beyond := false
	own.Iterate(func(path fieldpath.Path) {
		beyond = beyond || !path[0].Equals(metadata[0])
	})
	return !beyond
}

// setsOwner says that a set of fields has the reference to one of the owners.
func setsOwner(set *fieldpath.Set, owners []plan.Owner) bool {
	references := fieldpath.MakePathOrDie("metadata", "ownerReferences")
	inside := set.WithPrefix(references[0]).WithPrefix(references[1])
	if inside.Empty() {
		return set.Has(references) // Where the schema is not known, the list counts as a whole.
	}
	return slices.ContainsFunc(owners, func(o plan.Owner) bool {
		reference := fieldpath.MakePathOrDie(fieldpath.KeyByFields("uid", string(o.UID)))
		return inside.Has(reference) || !inside.WithPrefix(reference[0]).Empty()
	})
}
