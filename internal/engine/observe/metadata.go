package observe

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

const (
	// MaxRecord is the number of bytes that are read of the record of the wires, a quarter of what the API server allows for all
	// annotations of an object (apimachinery pkg/api/validation/objectmeta.go, TotalAnnotationSizeLimitB).
	MaxRecord = 64 << 10
	// maxLabels is the number of bytes of the labels of an object of others. A label has 380 bytes at most.
	maxLabels = 16 << 10
)

// marksOfUsers are MLKeeper's own annotations of custom resources. Those of children are in shareMarks.
var marksOfUsers = []string{
	keeper.SuspendAnnotation, keeper.ReconcileAtAnnotation, keeper.AdoptAnnotation, keeper.PreviousOperatorAnnotation,
}

// Metadata names what a cache keeps of the metadata of objects that users write, beside names, versions and times. An object may have more than a
// megabyte of annotations, labels, finalizers or owner references, so that a few hundred would fill the memory. What was reduced is never written
// back: a write needs the finalizers and the owners of others.
type Metadata struct {
	// Annotations are those beside MLKeeper's own of custom resources.
	Annotations []string
	// Finalizers are those that MLKeeper asks for.
	Finalizers []string
	// Labels says that labels count, as far as BoundLabels keeps them.
	Labels bool
}

// Reduce drops everything else of the metadata of an object. It may be called more than once.
func (k Metadata) Reduce(m metav1.Object) {
	m.SetManagedFields(nil)
	m.SetOwnerReferences(nil)
	m.SetSelfLink("")
	var finalizers []string
	for _, name := range k.Finalizers {
		if slices.Contains(m.GetFinalizers(), name) {
			finalizers = append(finalizers, name)
		}
	}
	m.SetFinalizers(finalizers)
	m.SetAnnotations(k.annotations(m.GetAnnotations()))
	var labels map[string]string
	if k.Labels {
		labels = BoundLabels(m.GetLabels())
	}
	m.SetLabels(labels)
}

// annotations returns the known ones, the beginning of those that are too long.
func (k Metadata) annotations(all map[string]string) (out map[string]string) {
	for _, name := range slices.Concat(marksOfUsers, k.Annotations) {
		value, found := all[name]
		if !found {
			continue
		}
		limit := maxText
		if name == keeper.WiringAnnotation {
			limit = MaxRecord + 1 // More than is read, so that it counts as too long.
		}
		if len(value) > limit {
			value = strings.ToValidUTF8(value[:limit], "")
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = value
	}
	return out
}

// BoundLabels returns the labels, or the first of them by their names where they have too many bytes.
func BoundLabels(all map[string]string) map[string]string {
	size := 0
	for key, value := range all {
		size += len(key) + len(value)
	}
	if size <= maxLabels {
		return all
	}
	out := map[string]string{}
	size = 0
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if size += len(key) + len(all[key]); size > maxLabels {
			break
		}
		out[key] = all[key]
	}
	return out
}

// Identity reduces metadata to what tells whether an object is still the same.
func Identity(m *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
	}}
}
