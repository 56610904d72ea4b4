package trustyai

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/plan"
)

// sizeAnnotation records on the claim the size that was asked for: the cache keeps annotations of this prefix, and
// nothing of the size itself.
const sizeAnnotation = keeper.AnnotationPrefix + "requested-size"

// claim renders the PersistentVolumeClaim: as TrustyAI ADR 3 says in the ADR's shape, and with the default storage class
// in upstream's. The claim of a migrated service stays: its data was copied, and is not MLKeeper's to delete. Where the
// original operator migrated, it would go with the custom resource that owns it.
func (r *scene) claim() {
	storage := r.cr.Spec.Storage
	if storage.ExistingClaim != "" {
		r.checkClaim()
		return
	}
	held := r.facts.Claim != nil && r.facts.Claim.Ours
	if !held && (!usesVolume(r.template) || r.facts.Sharer != "") {
		return
	}
	size, ok := r.size()
	if !ok {
		return
	}
	mode := corev1.PersistentVolumeFilesystem
	class := storage.StorageClassName
	if class == nil && ADRShape(r.cr) {
		none := ""
		class = &none
	}
	meta := r.meta(r.names.pvc, nil)
	meta.Annotations = map[string]string{sizeAnnotation: size.String()}
	o := plan.Typed(gvkClaim, &corev1.PersistentVolumeClaim{
		ObjectMeta: meta,
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      accessModes(storage),
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
			VolumeMode:       &mode,
			StorageClassName: class,
			VolumeName:       storage.PV,
		},
	})
	o.Retain = storage.RetentionPolicy != v1.RetentionDelete
	o.OnImmutable = plan.ImmutableStall
	o.IgnoreHealth = !usesVolume(r.template)
	r.add(o)
}

// accessModes are those of the spec. With ReadWriteMany there is one pod as well, since the service locks its files within one process only.
func accessModes(storage v1.StorageSpec) []corev1.PersistentVolumeAccessMode {
	if len(storage.AccessModes) > 0 {
		return storage.AccessModes
	}
	return []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
}

const existingClaimField = "spec.storage.existingClaim"

// checkClaim names what is wrong with the claim that the spec names. The pods wait for it by themselves.
func (r *scene) checkClaim() {
	name := r.cr.Spec.Storage.ExistingClaim
	switch claim := r.facts.Claim; {
	case !usesVolume(r.template):
	case claim == nil:
		r.problem(plan.Waiting, "ClaimNotFound", existingClaimField, name, "there is no PersistentVolumeClaim of this name in the namespace", "create it")
	case claim.Phase == string(corev1.ClaimLost):
		r.problem(plan.Waiting, "ClaimLost", existingClaimField, name, "the PersistentVolumeClaim has lost its volume",
			"restore the PersistentVolume, or create the TrustyAIService again with another claim")
	}
}

// checkShared refuses a claim that another service writes to: two pods that write to one volume lose data.
func (r *scene) checkShared() bool {
	if r.facts.Sharer == "" || !usesVolume(r.template) {
		return true
	}
	field, value := existingClaimField, r.cr.Spec.Storage.ExistingClaim
	if value == "" {
		field, value = "metadata.name", r.cr.Name
	}
	r.problem(plan.Terminal, "ClaimShared", field, value,
		"the TrustyAIService "+r.facts.Sharer+" keeps its files on the claim "+r.names.pvc+", and two pods that write to one volume lose data",
		"delete one of the two, or create this one again with another claim")
	return false
}

// size is the size to ask for. A claim cannot shrink: a smaller size is a problem, and the claim stays as it is. That of a claim of somebody
// else, which is reported, is not for ours.
func (r *scene) size() (resource.Quantity, bool) {
	const field = "spec.storage.size"
	text := r.cr.Spec.Storage.Size
	var held resource.Quantity
	known := false
	if r.facts.Claim != nil {
		q, err := resource.ParseQuantity(r.facts.Claim.Size)
		held, known = q, err == nil
	}
	if known && (text == "" || !usesVolume(r.template)) {
		return held, true
	}
	want, err := resource.ParseQuantity(text)
	switch {
	case err != nil || want.Sign() <= 0:
		r.problem(plan.Terminal, "InvalidSize", field, quote(text), "is not a positive quantity", "set a quantity such as 1Gi")
		return held, known
	case known && r.facts.Claim.Ours && want.Cmp(held) < 0:
		r.problem(plan.Terminal, "SizeDecreased", field, text,
			fmt.Sprintf("is less than the %s that the claim %s has, and a claim cannot shrink", held.String(), r.names.pvc),
			fmt.Sprintf("set the size to %s or more", held.String()))
		return held, true
	}
	return want, true
}

// checkVolume names what keeps the claim from being bound to spec.storage.pv (TrustyAI ADR 3). The claim is rendered
// nevertheless: it waits, and is bound as soon as the volume fits.
func (r *scene) checkVolume() {
	const field = "spec.storage.pv"
	volume, storage := r.facts.Volume, r.cr.Spec.Storage
	if volume == nil || !usesVolume(r.template) {
		return
	}
	if volume.Missing {
		r.problem(plan.Waiting, "VolumeNotFound", field, volume.Name, "there is no PersistentVolume of this name",
			"create the PersistentVolume; the claim is bound once it is there")
		return
	}
	if volume.ClaimName != "" {
		foreign := volume.ClaimNamespace != r.cr.Namespace || volume.ClaimName != r.names.pvc
		stale := volume.ClaimUID != "" && (r.facts.Claim == nil || r.facts.Claim.UID != volume.ClaimUID)
		claim := volume.ClaimNamespace + "/" + volume.ClaimName
		switch {
		case foreign:
			// Whoever may read this status need not be allowed to know of other namespaces.
			if volume.ClaimNamespace != r.cr.Namespace {
				claim = "of another namespace"
			}
			r.problem(plan.Waiting, "VolumeBoundElsewhere", field, volume.Name, "the PersistentVolume belongs to the claim "+claim,
				"free the PersistentVolume, or create the TrustyAIService again with another one")
		case stale:
			r.problem(plan.Waiting, "VolumeReleased", field, volume.Name,
				"the PersistentVolume still belongs to an earlier claim "+claim+" that is gone",
				"remove spec.claimRef.uid of the PersistentVolume if its data may be used")
		}
		if foreign || stale {
			return
		}
	}
	if class := r.claimClass(); volume.Class != class && (class != "" || ADRShape(r.cr) || storage.StorageClassName != nil) {
		r.problem(plan.Waiting, "VolumeClassDiffers", field, volume.Name,
			fmt.Sprintf("the PersistentVolume has the storage class %q and the claim %q, so that it is never bound", volume.Class, class),
			"create the TrustyAIService again with spec.storage.storageClassName "+fmt.Sprintf("%q", volume.Class)+
				", or set the class of the PersistentVolume")
	}
	capacity, err := resource.ParseQuantity(volume.Capacity)
	want, wantErr := resource.ParseQuantity(storage.Size)
	if err == nil && wantErr == nil && capacity.Cmp(want) < 0 {
		r.problem(plan.Terminal, "VolumeTooSmall", field, volume.Name,
			fmt.Sprintf("the PersistentVolume has %s and spec.storage.size asks for %s", volume.Capacity, storage.Size),
			"lower spec.storage.size, or use a larger PersistentVolume")
	}
}

// claimClass is the storage class that the claim names; empty for none.
func (r *scene) claimClass() string {
	if class := r.cr.Spec.Storage.StorageClassName; class != nil {
		return *class
	}
	return ""
}

// pointer returns a pointer to a value, for the many optional fields of the Kubernetes API.
func pointer[T any](v T) *T { return &v }

// selectorOf makes a label selector of labels.
func selectorOf(labels map[string]string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: labels}
}
