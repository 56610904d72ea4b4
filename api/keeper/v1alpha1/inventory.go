package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// InventoryOwner names the custom resource whose children an Inventory holds.
type InventoryOwner struct {
	// group is the API group of the custom resource.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group"`
	// kind is the kind of the custom resource.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// namespace is the namespace of the custom resource; empty for a cluster-scoped one.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// name is the name of the custom resource.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid is the UID of the custom resource; one of the same name and another UID is another owner.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	UID types.UID `json:"uid"`
}

// InventorySpec lists what one stage of a custom resource consists of, or a part of it. It is written before the objects are.
type InventorySpec struct {
	// owner is the custom resource; when it is gone the Inventory is deleted, and the garbage collector deletes what
	// the Inventory owns.
	// +required
	Owner InventoryOwner `json:"owner"`
	// stageName is the name of the stage, such as that of an application of a KfDef. The Inventories of a stage are found by it,
	// wherever the stage is in the order. It is empty in Inventories of earlier versions until the operator has named them.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	StageName string `json:"stageName,omitempty"`
	// stage is the place of this stage in the order of application; teardown runs in the reverse order. Numbers have gaps, so that a
	// stage can be inserted without a change of others.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Stage int32 `json:"stage"`
	// part is the place of this Inventory among those of its stage. A stage has several if it has more objects than one
	// Inventory can list within the limits of the API server.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Part int32 `json:"part,omitempty"`
	// impersonate is the user whose rights the objects are written with; empty for the operator's own.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Impersonate string `json:"impersonate,omitempty"`
	// entries are the objects of the stage, each with its applied hash and policy.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5000
	Entries []InventoryEntry `json:"entries,omitempty"`
}

// InventoryStatus records what the writes of the stage answered, and how far the finalization is.
type InventoryStatus struct {
	// conditions are the state of the finalization after the deletion of the custom resource: OwnerDeleted and WebhooksDeleted of the
	// first stage, and Finalizing of the stage that is deleted next, with what it waits for.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// entries are the objects that were written, with UID and hash of the fields that MLKeeper owns.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5000
	Entries []InventoryEntry `json:"entries,omitempty"`
}

// Inventory owns the children of a custom resource that cannot own them itself, because some of them are
// cluster-scoped or live in another namespace. Deleting it lets the garbage collector delete them, with no operator
// running.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=mlkeeper
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.owner.kind`
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.owner.namespace`
// +kubebuilder:printcolumn:name="Owner",type=string,JSONPath=`.spec.owner.name`
// +kubebuilder:printcolumn:name="Stage",type=string,JSONPath=`.spec.stageName`
// +kubebuilder:printcolumn:name="Finalizing",type=string,JSONPath=`.status.conditions[?(@.type=="Finalizing")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Inventory struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// +required
	Spec InventorySpec `json:"spec"`
	// +optional
	Status InventoryStatus `json:"status,omitempty"`
}

// InventoryList is a list of Inventories.
//
// +kubebuilder:object:root=true
type InventoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Inventory `json:"items"`
}
