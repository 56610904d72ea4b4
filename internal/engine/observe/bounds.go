package observe

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

// Whoever may write an object in his namespace can give it MLKeeper's labels, and an object may have more than a megabyte. These
// limits bound what the cache keeps of each. Nothing that MLKeeper writes reaches them.
const (
	// maxText is the number of bytes of one annotation or field of an owner reference.
	maxText = 1 << 10
	// maxOwners is the number of owner references beside that of the controller.
	maxOwners = 32
	// maxStripped is the number of bytes of what is kept for health and status.
	maxStripped = 64 << 10
)

// boundOwners returns the controller and the first of the others. A text that is too long cannot be one of ours, and is left out.
func boundOwners(all []metav1.OwnerReference) []metav1.OwnerReference {
	long := func(r *metav1.OwnerReference) bool {
		return max(len(r.APIVersion), len(r.Kind), len(r.Name), len(r.UID)) > maxText
	}
	within := len(all) <= maxOwners
	for i := range all {
		within = within && !long(&all[i])
	}
	if within {
		return all
	}
	var out []metav1.OwnerReference
	others := 0
	for _, r := range all {
		controls := r.Controller != nil && *r.Controller
		if !controls && (others == maxOwners || long(&r)) {
			continue
		}
		if !controls {
			others++
		}
		if long(&r) {
			// It still counts as the object's controller, which is somebody else.
			r = metav1.OwnerReference{APIVersion: "unknown", Kind: "Unknown", Name: "unknown", UID: "unknown", Controller: r.Controller}
		}
		out = append(out, r)
	}
	return out
}

// boundStripped returns the content as JSON, or that of the names alone where it is too large.
func boundStripped(content, names map[string]any) ([]byte, error) {
	raw, err := json.Marshal(content)
	if err == nil && len(raw) > maxStripped {
		return json.Marshal(map[string]any{"apiVersion": content["apiVersion"], "kind": content["kind"], "metadata": names})
	}
	return raw, err
}
