package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/objectmeta"
)

// Stack identifies the custom resource that a set of children belongs to.
type Stack struct {
	// Controller is the name of the controller, such as trustyai.
	Controller string
	// GVK is the stored version of the custom resource.
	GVK       schema.GroupVersionKind
	Namespace string
	Name      string
	UID       types.UID
}

// ID is "<Kind>.<group>/<namespace>/<name>", the value of the owner annotation.
func (s Stack) ID() string {
	return fmt.Sprintf("%s.%s/%s/%s", s.GVK.Kind, s.GVK.Group, s.Namespace, s.Name)
}

// Hash is a short digest of ID that fits a label and a name.
func (s Stack) Hash() string {
	sum := sha256.Sum256([]byte(s.ID()))
	return hex.EncodeToString(sum[:8])
}

// InventoryPrefix is what the names of the stack's Inventories begin with. It contains the UID, so that two custom resources of the same name
// never share an Inventory.
func (s Stack) InventoryPrefix() string {
	kind := strings.ToLower(s.GVK.Kind)
	return fmt.Sprintf("%s-%s-%.8s", kind[:min(len(kind), 150)], s.Hash(), s.UID)
}

// Marked says that an object has a mark of the stack. One of the two is enough: what is generated must not be made anew where somebody has
// changed the other, which is repaired. What an earlier custom resource of the same name controls is not of this one, and is about to go. What
// anybody else controls is not, either: a digest of its content would restart pods once the real one is there.
func (s Stack) Marked(o metav1.Object) bool {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil && (s.ofEarlier(*ref) || s.OfAnother(o)) {
		return false
	}
	return o.GetAnnotations()[keeper.OwnerAnnotation] == s.ID() || o.GetLabels()[keeper.StackLabel] == s.Hash()
}

// OfAnother says that an object has a controller that is neither a custom resource of the stack's kind nor an Inventory: whatever its labels are,
// it is no child.
func (s Stack) OfAnother(o metav1.Object) bool {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil {
		return false
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	inventory := gv.Group == keeper.GroupVersion.Group && ref.Kind == "Inventory"
	return err != nil || !inventory && (gv.Group != s.GVK.Group || ref.Kind != s.GVK.Kind)
}

// ofEarlier says that a controller is another custom resource of the stack's name, or an Inventory of one.
func (s Stack) ofEarlier(controller metav1.OwnerReference) bool {
	gv, err := schema.ParseGroupVersion(controller.APIVersion)
	switch {
	case err != nil:
		return false
	case gv.Group == keeper.GroupVersion.Group && controller.Kind == "Inventory":
		return !strings.HasPrefix(controller.Name, s.InventoryPrefix())
	case gv.Group == s.GVK.Group && controller.Kind == s.GVK.Kind:
		return controller.UID != s.UID
	}
	return false
}

// Owner is what the children of a stack are owned by: the custom resource, or an Inventory.
type Owner struct {
	APIVersion string
	Kind       string
	Name       string
	UID        types.UID
}

// Stamped is a desired object with the engine's marks, ready to be written.
type Stamped struct {
	Object
	Key    Key
	Digest string
	// Stage is the index of the stage the object belongs to.
	Stage int
}

// Stamp returns the object with the engine's marks: labels, owner annotation, owner reference and digest. Only its metadata is
// a copy; the rest is shared with the object, and neither may be changed.
// The digest of a Secret is keyed: inventories have it, too, which more people may read than Secrets.
// blockOwnerDeletion is never set (invariant 2), and what must be retained after its custom resource, which is what is retained or orphaned, and
// every Namespace and CustomResourceDefinition, gets no owner reference (invariant 5).
// Labels or annotations that are no texts are an error: the marks would be all that is left of them. Whoever renders refuses them before.
func Stamp(key digest.Key, o Object, stack Stack, owner Owner, stage int) (Stamped, error) {
	if err := objectmeta.Check(o.Desired.Object); err != nil {
		return Stamped{}, fmt.Errorf("%s: %w", o.Key(), err)
	}
	u := &unstructured.Unstructured{Object: maps.Clone(o.Desired.Object)}
	delete(u.Object, "status")
	if metadata, ok := u.Object["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "creationTimestamp")
		u.Object["metadata"] = metadata
	}
	labels := u.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[keeper.ControllerLabel] = stack.Controller
	labels[keeper.StackLabel] = stack.Hash()
	u.SetLabels(labels)
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[keeper.OwnerAnnotation] = stack.ID()
	delete(annotations, keeper.AppliedHashAnnotation)
	if o.Partial {
		annotations[keeper.PartialAnnotation] = "true"
	}
	u.SetAnnotations(annotations)
	u.SetOwnerReferences(nil)
	if o.Policy() == "" && !AlwaysRetained(KeyOf(u)) {
		controller := true
		u.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID, Controller: &controller,
		}})
	}
	sum := sha256.New()
	if u.GroupVersionKind().GroupKind() == secretKind {
		sum = key.New()
	}
	if err := json.NewEncoder(sum).Encode(u.Object); err != nil {
		return Stamped{}, fmt.Errorf("encode %s: %w", KeyOf(u), err)
	}
	hash := digest.Text(sum)
	annotations[keeper.AppliedHashAnnotation] = hash
	u.SetAnnotations(annotations)
	o.Desired = u
	return Stamped{Object: o, Key: KeyOf(u), Digest: hash, Stage: stage}, nil
}

var secretKind = schema.GroupKind{Kind: "Secret"}

// AlwaysRetained names the kinds that hold what others put into them: the garbage collector must never delete them.
func AlwaysRetained(k Key) bool {
	return k.Group == "" && k.Kind == "Namespace" ||
		k.Group == "apiextensions.k8s.io" && k.Kind == "CustomResourceDefinition"
}
