package observe

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"
	"k8s.io/utils/ptr"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// marks are what the children of one custom resource have in common: MLKeeper's labels, its annotations but for the
// digest, and the owner. They are never changed.
type marks struct {
	labels, annotations map[string]string
	owners              []metav1.OwnerReference
}

// known holds the marks of the custom resources of which a child was seen last. With ten thousand objects, to share them
// saves a third of the cache; one that was forgotten costs no more than its memory.
var known = lru.New(16 << 10)

// shareMarks sets the labels, annotations and owner references of a reduced object.
func shareMarks(out *Object, m metav1.Object) {
	own := marks{
		labels:      pick(m.GetLabels(), keeper.ControllerLabel, keeper.StackLabel),
		annotations: pick(m.GetAnnotations(), keeper.OwnerAnnotation, keeper.AdoptedAnnotation, keeper.PartialAnnotation, keeper.PruneAnnotation),
		owners:      boundOwners(m.GetOwnerReferences()),
	}
	key := own.key()
	if same, ok := known.Get(key); ok {
		own = same.(marks)
	} else {
		known.Add(key, own)
	}
	out.Labels, out.Annotations, out.OwnerReferences = own.labels, own.annotations, own.owners
}

// key tells marks apart. Everything is quoted: whoever may write an annotation must not make one look like another.
func (m marks) key() string {
	out := fmt.Appendf(nil, "%q %q", m.labels, m.annotations)
	for _, r := range m.owners {
		out = fmt.Appendf(out, " %q %t %t", []string{r.APIVersion, r.Kind, r.Name, string(r.UID)},
			ptr.Deref(r.Controller, false), ptr.Deref(r.BlockOwnerDeletion, false))
	}
	return string(out)
}

func pick(all map[string]string, keys ...string) map[string]string {
	out := make(map[string]string, len(keys))
	for _, k := range keys {
		if v, ok := all[k]; ok && len(v) <= maxText {
			out[k] = v
		}
	}
	return out
}
