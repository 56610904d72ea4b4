package v1alpha1

import "k8s.io/apimachinery/pkg/types"

// Annotations and labels that MLKeeper reads on every kind, or writes on every child.
const (
	// AnnotationPrefix begins every label and annotation of MLKeeper.
	AnnotationPrefix = "keeper.mlkeeper.dev/"
	// SuspendAnnotation, set to "true" on a custom resource, stops every write for it until it is removed.
	SuspendAnnotation = "keeper.mlkeeper.dev/suspend"
	// ReconcileAtAnnotation, set to an RFC 3339 time, asks for one reconcile now; its value is echoed in
	// status.lastHandledReconcileAt.
	ReconcileAtAnnotation = "keeper.mlkeeper.dev/reconcile-at"
	// AdoptAnnotation, set to "true" on a custom resource, allows the adoption of objects that nobody owns and that
	// stand under the names of its children.
	AdoptAnnotation = "keeper.mlkeeper.dev/adopt"
	// AdoptedAnnotation marks a child that MLKeeper adopted instead of creating it; it gets no owner reference and so
	// outlives its custom resource.
	AdoptedAnnotation = "keeper.mlkeeper.dev/adopted"
	// CompositionsLabel, with the value CompositionsAllowed, lets orders of an ACM runtime into a Namespace, and lets the pods of ordered
	// services run as a ServiceAccount.
	CompositionsLabel   = "keeper.mlkeeper.dev/compositions"
	CompositionsAllowed = "allowed"
	// CompositionsPriorityLabel, with the value CompositionsAllowed, lets the pods of services that are ordered into a Namespace have a
	// priorityClassName, by which pods of others are preempted.
	CompositionsPriorityLabel = "keeper.mlkeeper.dev/compositions-priority"
	// ElementAnnotation on an InferenceService that nobody owns hands it over to the CompositionElement of that name, which deploys
	// it from then on, and removes it when it is ordered to.
	ElementAnnotation = "keeper.mlkeeper.dev/element"
	// PreviousOperatorAnnotation marks a custom resource that the previous operator kept.
	PreviousOperatorAnnotation = "keeper.mlkeeper.dev/previous-operator"
	// RunAnnotation says what a child that runs to its end is run for, such as the hook of a chart. For another value it is run again.
	RunAnnotation = "keeper.mlkeeper.dev/run"
	// PartialAnnotation marks a child of which MLKeeper declares a part, and the previous operator the rest.
	PartialAnnotation = "keeper.mlkeeper.dev/partial"
	// ControllerLabel carries the name of the controller that made a child; child watches select on it.
	ControllerLabel = "keeper.mlkeeper.dev/controller"
	// StackLabel carries a short hash of the kind, namespace and name of the custom resource a child belongs to.
	StackLabel = "keeper.mlkeeper.dev/stack"
	// OwnerAnnotation carries "<Kind>.<group>/<namespace>/<name>" of the custom resource a child belongs to.
	OwnerAnnotation = "keeper.mlkeeper.dev/owner"
	// AppliedHashAnnotation carries the digest of the rendered child that was applied last.
	AppliedHashAnnotation = "keeper.mlkeeper.dev/applied-hash"
	// PayloadLabel marks the Secrets of the operator's namespace with what an ACM runtime has ordered.
	PayloadLabel = "keeper.mlkeeper.dev/payload"
	// PruneAnnotation, with the value PruneDisabled, keeps a child when the plan no longer has it. Where it is declared, the child is retained
	// after its custom resource, too.
	PruneAnnotation = "keeper.mlkeeper.dev/prune"
	PruneDisabled   = "disabled"
	// WireAnnotation, set to "false" on an InferenceService, keeps MLKeeper's entries out of it.
	WireAnnotation = "keeper.mlkeeper.dev/wire"
	// WiringAnnotation records, on an object of somebody else, the entries that MLKeeper added to it.
	WiringAnnotation = "keeper.mlkeeper.dev/wiring"
)

// DeletionPolicy says what happens to the children when their custom resource is deleted.
//
// +kubebuilder:validation:Enum=Delete;Orphan
type DeletionPolicy string

const (
	// DeletionDelete deletes them, except what MLKeeper always retains; it is the default.
	DeletionDelete DeletionPolicy = "Delete"
	// DeletionOrphan leaves all of them, without an owner.
	DeletionOrphan DeletionPolicy = "Orphan"
)

// EntryPolicy says what happens to one child.
//
// +kubebuilder:validation:Enum=Retain;Orphan
type EntryPolicy string

const (
	// Retain never deletes the child: neither with its custom resource, nor when it is no longer rendered.
	Retain EntryPolicy = "Retain"
	// Orphan does not delete the child with its custom resource, but when it is no longer rendered.
	Orphan EntryPolicy = "Orphan"
)

// ObjectReference names one object in the cluster.
type ObjectReference struct {
	// group is the API group; empty for the core group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
	// version is the API version that the object was applied in.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version"`
	// kind is the kind of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// namespace is empty for cluster-scoped objects.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// name is the name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// InventoryEntry is what MLKeeper remembers of one child, so that a restart verifies it without a read.
type InventoryEntry struct {
	ObjectReference `json:",inline"`
	// uid is the UID of the object when it was last written.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	UID types.UID `json:"uid,omitempty"`
	// appliedHash is a keyed digest of the annotation applied-hash that the object has since it was applied last. Who cannot read the object
	// cannot compare it with a guess.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	AppliedHash string `json:"appliedHash,omitempty"`
	// ownedFieldsHash is a keyed digest of MLKeeper's own managedFields entry after that write; another one on the live object
	// is drift.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	OwnedFieldsHash string `json:"ownedFieldsHash,omitempty"`
	// completed is true for a Job that completed as it was written last. It is not run again when it is gone, as after its
	// ttlSecondsAfterFinished.
	// +optional
	Completed bool `json:"completed,omitempty"`
	// run is what the object was run for as it was written last, such as the revision of a chart that it is a hook of: the value of its annotation
	// keeper.mlkeeper.dev/run. One that completed for it is not run again when it is gone, whatever it is declared as since.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Run string `json:"run,omitempty"`
	// leftOut tells what was left out of the object, or merged in it, so that the API server took it as it was written last.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=512
	LeftOut []string `json:"leftOut,omitempty"`
	// definitionGeneration is the generation of the CustomResourceDefinition for which something was left out. The object is applied again
	// when the definition changes. It is 0 for a kind without a definition, and where nothing was left out.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DefinitionGeneration int64 `json:"definitionGeneration,omitempty"`
	// policy is Retain for an object that is never deleted, and Orphan for one that is not deleted with its custom resource;
	// empty for one that is deleted with it.
	// +optional
	Policy EntryPolicy `json:"policy,omitempty"`
}

// ResourceInventory is the inventory of a custom resource in its status, where the custom resource itself owns its children. It is
// empty where Inventories own them.
type ResourceInventory struct {
	// entries has one entry for each child, so that a restart verifies the children without a read.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Entries []InventoryEntry `json:"entries,omitempty"`
}
