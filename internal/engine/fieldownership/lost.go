package fieldownership

import (
	"bytes"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Field is one field of an object and the manager that holds it.
type Field struct {
	Path fieldpath.Path
	// Text is the path as people write it, such as spec.containers[name="x"].image.
	Text string
	// Manager is the field manager that holds the field.
	Manager string
}

// String prints the field with its manager, for messages.
func (f Field) String() string { return f.Text + " (held by " + f.Manager + ")" }

// Lost returns the leaf fields of desired that other managers hold in live and the given manager does not: what drift
// consists of. A field that both hold has the same value and is not lost. Of several holders the one that wrote last is
// named. The result is sorted by Text.
func Lost(desired, live *unstructured.Unstructured, manager string) []Field {
	if desired == nil || live == nil {
		return nil
	}
	entries := live.GetManagedFields()
	own := held(entries, manager)
	type holder struct {
		Field
		at metav1.Time
	}
	found := map[string]holder{}
	for i := range entries {
		e := &entries[i]
		if e.Manager == manager {
			continue
		}
		for path := range fieldsOf(e).Leaves().All() {
			value, ok := find(desired.Object, path)
			if !ok || own.Has(path) || holdsInside(own, path, value) {
				continue
			}
			text := textOf(path)
			var at metav1.Time
			if e.Time != nil {
				at = *e.Time
			}
			if earlier, ok := found[text]; !ok || earlier.at.Before(&at) {
				found[text] = holder{Field: Field{Path: path.Copy(), Text: text, Manager: e.Manager}, at: at}
			}
		}
	}
	out := make([]Field, 0, len(found))
	for _, h := range found {
		out = append(out, h.Field)
	}
	sortFields(out)
	return out
}

// held is everything that a manager holds of the object itself, whether by update or by apply.
func held(entries []metav1.ManagedFieldsEntry, manager string) *fieldpath.Set {
	set := fieldpath.NewSet()
	for i := range entries {
		if entries[i].Manager == manager && entries[i].Subresource == "" {
			set = set.Union(fieldsOf(&entries[i]))
		}
	}
	return set
}

// fieldsOf decodes one entry; one that cannot be read counts as empty, since no decision may hang on it.
func fieldsOf(e *metav1.ManagedFieldsEntry) *fieldpath.Set {
	set := fieldpath.NewSet()
	if e.FieldsV1 == nil {
		return set
	}
	if err := set.FromJSON(bytes.NewReader(e.FieldsV1.GetRawBytes())); err != nil {
		return fieldpath.NewSet()
	}
	return set
}

// holdsInside says that the value is a map or list of which the set holds something inside: then another manager's
// entry for the container alone is no claim on what it contains.
func holdsInside(set *fieldpath.Set, path fieldpath.Path, value any) bool {
	switch v := value.(type) {
	case map[string]any:
		if len(v) == 0 {
			return false
		}
	case []any:
		if len(v) == 0 {
			return false
		}
	default:
		return false
	}
	for _, element := range path {
		set = set.WithPrefix(element)
	}
	return !set.Empty()
}

// textOf prints a path without the leading dot of fieldpath.
func textOf(path fieldpath.Path) string { return strings.TrimPrefix(path.String(), ".") }

func sortFields(fields []Field) {
	slices.SortFunc(fields, func(a, b Field) int { return strings.Compare(a.Text, b.Text) })
}
