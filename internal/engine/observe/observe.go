package observe

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/pack"
	"mlkeeper.dev/internal/engine/plan"
)

// FieldManager is the name under which MLKeeper owns fields.
const FieldManager = "mlkeeper"

// Object is what the engine keeps of one watched object. It implements metav1.Object through ObjectMeta, whose
// managedFields are dropped and whose labels and annotations are reduced to MLKeeper's own.
type Object struct {
	metav1.ObjectMeta
	// Key is the identity of the object.
	Key plan.Key
	// APIVersion is the version that the object was read in.
	APIVersion string
	// OwnedFieldsHash is the hash of MLKeeper's own managedFields entries and the digest annotation; empty when MLKeeper owns
	// nothing of the object.
	OwnedFieldsHash string
	// Created says that MLKeeper's entry still is the one of a POST: the next apply must migrate it first (invariant 1).
	Created bool
	// Health is the health of the object; Current for kinds watched by metadata alone.
	Health health.Result
	// Completed says that the object is a Job or a Pod that has completed, also while it is being deleted.
	Completed bool
	// marks are what labels, annotations and owner references are of: they are shared as long as an object refers to them.
	marks *marks
	// digest is the digest annotation, kept apart from the annotations, which all children of a stack share.
	digest string
	// stripped is what Stripped returns, as JSON: maps would take ten times as much of every object's memory.
	stripped []byte
}

// Stripped returns a new copy of the object reduced to what health and status need, with MLKeeper's own annotations; nil
// for kinds watched by metadata alone, and for no object.
func (o *Object) Stripped() *unstructured.Unstructured {
	if o == nil || o.stripped == nil {
		return nil
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(o.stripped, &u.Object); err != nil {
		panic("bug: what was stripped does not decode: " + err.Error())
	}
	return u
}

// Full says that more than the metadata is known, so that Stripped returns something.
func (o *Object) Full() bool { return o.stripped != nil }

// fill takes in what is kept of a full object: what Stripped returns, and its health.
func (o *Object) fill(u *unstructured.Unstructured) {
	kept := health.Strip(u)
	kept.Object["metadata"] = strippedMetadata(u)
	raw, err := boundStripped(kept.Object, map[string]any{"name": u.GetName(), "namespace": u.GetNamespace(), "generation": u.GetGeneration()})
	if err != nil {
		panic("bug: what was stripped does not encode: " + err.Error())
	}
	o.stripped, o.Health, o.Completed = raw, health.Of(u), health.Completed(u)
}

// AppliedHash is the annotation applied-hash: what MLKeeper rendered when it wrote the object last.
func (o *Object) AppliedHash() string {
	if o.digest != "" {
		return o.digest
	}
	return o.Annotations[keeper.AppliedHashAnnotation]
}

// Terminating says that the object is being deleted.
func (o *Object) Terminating() bool { return o.DeletionTimestamp != nil }

// AsTerminating returns a copy of the object as it is after a deletion that the API server has acknowledged.
func (o *Object) AsTerminating(now time.Time) *Object {
	out, at := *o, metav1.NewTime(now)
	out.DeletionTimestamp = &at
	out.Health = health.Result{Status: health.Terminating, Reason: "Terminating", Message: "is being deleted"}
	return &out
}

// OwnedBy says that the object belongs to the stack: its controller is the given owner or, for an object that carries
// no controller (retained or adopted), its marks name the same custom resource (invariant 5).
func (o *Object) OwnedBy(stack plan.Stack, owners ...plan.Owner) bool {
	if ref := metav1.GetControllerOfNoCopy(&o.ObjectMeta); ref != nil {
		for _, owner := range owners {
			if ref.UID == owner.UID {
				return true
			}
		}
		return false
	}
	return o.Labels[keeper.ControllerLabel] == stack.Controller && o.Annotations[keeper.OwnerAnnotation] == stack.ID()
}

// OwnerOf names the owner of an object: its controller, or the custom resource that MLKeeper made it for. The latter comes first only
// where the controller is an Inventory, which users do not know.
func OwnerOf(o metav1.Object) string {
	ref, custom := metav1.GetControllerOfNoCopy(o), o.GetAnnotations()[keeper.OwnerAnnotation]
	switch {
	case ref != nil && (ref.Kind != "Inventory" || custom == ""):
		return ref.Kind + " " + ref.Name
	case custom != "":
		return custom
	}
	return "nobody"
}

// Refers says that the object has an owner reference, controller or not, to one of the owners.
func (o *Object) Refers(owners ...plan.Owner) bool {
	for i := range o.OwnerReferences {
		for _, owner := range owners {
			if o.OwnerReferences[i].UID == owner.UID {
				return true
			}
		}
	}
	return false
}

// Adopted says that MLKeeper did not create the object but was asked to adopt it.
func (o *Object) Adopted() bool { return o.Annotations[keeper.AdoptedAnnotation] != "" }

// Written says that MLKeeper holds fields of the object, so that it has written it. Who can merely read the object cannot
// bring that about.
func (o *Object) Written() bool { return o.OwnedFieldsHash != "" }

// Partial says that MLKeeper declared only a part of the object, and the previous operator the rest (invariant 8).
func (o *Object) Partial() bool { return o.Annotations[keeper.PartialAnnotation] != "" }

// From reduces a full object, or one that holds metadata alone (full=false), to an Object.
func From(u *unstructured.Unstructured, full bool) *Object {
	out := reduce(plan.KeyOf(u), u.GetAPIVersion(), u)
	if full {
		out.fill(u)
	}
	return out
}

// FromTyped reduces a full object of a built-in type, which it owns and takes apart.
func FromTyped(gvk schema.GroupVersionKind, o metav1.Object) *Object {
	key := plan.Key{GroupKind: gvk.GroupKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
	out := reduce(key, gvk.GroupVersion().String(), o)
	o.SetManagedFields(nil)
	// No rule of health reads a template, which is most of such an object.
	switch workload := o.(type) {
	case *appsv1.Deployment:
		workload.Spec.Template = corev1.PodTemplateSpec{}
	case *appsv1.StatefulSet:
		workload.Spec.Template, workload.Spec.VolumeClaimTemplates = corev1.PodTemplateSpec{}, nil
	case *appsv1.DaemonSet:
		workload.Spec.Template = corev1.PodTemplateSpec{}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		panic(fmt.Sprintf("bug: %s does not convert: %v", gvk.Kind, err)) // Built-in types always do.
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk)
	out.fill(u)
	return out
}

// FromMetadata reduces what a watch on metadata alone delivers; gvk is the kind that is watched.
func FromMetadata(gvk schema.GroupVersionKind, m *metav1.PartialObjectMetadata) *Object {
	key := plan.Key{GroupKind: gvk.GroupKind(), Namespace: m.Namespace, Name: m.Name}
	return reduce(key, gvk.GroupVersion().String(), m)
}

func reduce(key plan.Key, apiVersion string, m metav1.Object) *Object {
	out := &Object{Key: key, APIVersion: apiVersion}
	out.Namespace, out.Name, out.UID = key.Namespace, key.Name, m.GetUID()
	out.ResourceVersion, out.Generation = m.GetResourceVersion(), m.GetGeneration()
	out.CreationTimestamp, out.DeletionTimestamp = m.GetCreationTimestamp(), m.GetDeletionTimestamp()
	if digest := m.GetAnnotations()[keeper.AppliedHashAnnotation]; len(digest) <= maxText {
		out.digest = digest
	}
	shareMarks(out, m)
	out.OwnedFieldsHash, out.Created = HashOwned(m.GetManagedFields(), out.AppliedHash())
	out.Health = health.Result{Status: health.Current}
	if out.Terminating() {
		out.Health = health.Result{Status: health.Terminating, Reason: "Terminating", Message: "is being deleted"}
	}
	pack.Strings(&out.Name, &out.Namespace, (*string)(&out.UID), &out.ResourceVersion, &out.digest, &out.OwnedFieldsHash)
	out.Key.Namespace, out.Key.Name = out.Namespace, out.Name
	return out
}

// HashOwned hashes MLKeeper's own entries of managedFields with the digest annotation (invariant 9). created tells that one
// of them is the entry of a POST, whose fields a later apply would not remove. The hash is the same in whatever order
// the fields come: protobuf lists the ports of a Service as numbers sort, JSON as strings do.
func HashOwned(entries []metav1.ManagedFieldsEntry, digest string) (hash string, created bool) {
	var own [][sha256.Size]byte
	for i := range entries {
		e := &entries[i]
		if e.Manager != FieldManager || e.Subresource != "" || e.FieldsV1 == nil {
			continue
		}
		if e.Operation == metav1.ManagedFieldsOperationUpdate {
			created = true
		}
		h := sha256.New()
		_, _ = io.WriteString(h, string(e.Operation)+e.APIVersion)
		canonical(h, e.FieldsV1.GetRawBytes())
		own = append(own, [sha256.Size]byte(h.Sum(nil)))
	}
	if len(own) == 0 {
		return "", false
	}
	slices.SortFunc(own, func(a, b [sha256.Size]byte) int { return bytes.Compare(a[:], b[:]) })
	h := sha256.New()
	for i := range own {
		_, _ = h.Write(own[i][:])
	}
	_, _ = io.WriteString(h, digest)
	return hex.EncodeToString(h.Sum(nil)[:16]), created
}

// strippedMetadata keeps of an object's metadata what controllers read: names, generation, and MLKeeper's own annotations, in
// which a controller may have recorded facts about what it rendered.
func strippedMetadata(u *unstructured.Unstructured) map[string]any {
	out := map[string]any{"name": u.GetName(), "namespace": u.GetNamespace(), "generation": u.GetGeneration()}
	marks := map[string]any{}
	for k, v := range u.GetAnnotations() {
		if strings.HasPrefix(k, keeper.AnnotationPrefix) && k != keeper.OwnerAnnotation && k != keeper.AppliedHashAnnotation {
			marks[k] = v
		}
	}
	if len(marks) > 0 {
		out["annotations"] = marks
	}
	return out
}

// NewerVersion says whether resourceVersion a is newer than b. Both are decimal numbers of any length (KEP-5504);
// anything else is never newer.
func NewerVersion(a, b string) bool {
	if !digits(a) || !digits(b) {
		return false
	}
	if len(a) != len(b) {
		return len(a) > len(b)
	}
	return a > b
}

func digits(s string) bool {
	for _, r := range s {
		if r < '0' || r > '9' {
			return false
		}
	}
	return s != ""
}
