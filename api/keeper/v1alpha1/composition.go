package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ConceptIdentifier is a ToscaConceptIdentifier.
type ConceptIdentifier struct {
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Name string `json:"name,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
}

// PayloadReference names a Secret of the participant. A cluster-scoped custom resource refers to what may hold credentials and does not
// contain it: whoever may read such custom resources may not read the Secrets of every namespace.
type PayloadReference struct {
	// namespace is the operator's.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// name has a keyed digest of the content: another content has another name, and nobody can try contents against it.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// DefinedElement is the definition of an element in a composition.
type DefinedElement struct {
	ConceptIdentifier `json:",inline"`
	// properties are what all elements of this definition share. Earlier releases stored them here; they are moved into the Secret of payload.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Properties *runtime.RawExtension `json:"properties,omitempty"`
}

// CompositionDefinitionSpec is a composition that an ACM runtime has primed.
type CompositionDefinitionSpec struct {
	// participantId is the participant that has primed it.
	// +required
	// +kubebuilder:validation:MaxLength=64
	ParticipantID string `json:"participantId"`
	// revision is the runtime's revision of the composition; empty from runtimes before Quebec.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Revision string `json:"revision,omitempty"`
	// elements are the definitions of the participant's elements.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Elements []DefinedElement `json:"elements,omitempty"`
	// payload leads to the elements with their properties, which may hold credentials.
	// +optional
	Payload *PayloadReference `json:"payload,omitempty"`
}

// CompositionDefinition is a composition of an ACM runtime that is primed; its name is the composition's id. The participant
// makes and deletes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster,shortName=acdef,categories=mlkeeper
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.spec.revision`
// +kubebuilder:printcolumn:name="Element",type=string,JSONPath=`.spec.elements[0].name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CompositionDefinition struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// +required
	Spec CompositionDefinitionSpec `json:"spec"`
}

// CompositionDefinitionList is a list of CompositionDefinitions.
//
// +kubebuilder:object:root=true
type CompositionDefinitionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CompositionDefinition `json:"items"`
}

// PendingOrderSpec is an order that was made for another revision than the participant knows.
type PendingOrderSpec struct {
	// participantId is the participant that holds it.
	// +required
	// +kubebuilder:validation:MaxLength=64
	ParticipantID string `json:"participantId"`
	// compositionId and automationCompositionId are whom the order is for.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	CompositionID string `json:"compositionId,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=64
	AutomationCompositionID string `json:"automationCompositionId,omitempty"`
	// type is the type of the message, such as AUTOMATION_COMPOSITION_DEPLOY.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Type string `json:"type,omitempty"`
	// payload leads to the order as it came, which may hold credentials.
	// +optional
	Payload *PayloadReference `json:"payload,omitempty"`
	// message is the order as it came. Earlier releases stored it here; it is moved into the Secret of payload.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Message *runtime.RawExtension `json:"message,omitempty"`
}

// PendingOrder is an order of an ACM runtime that waits until the runtime has told the revision that it was made for; its name is
// the message's id. The participant makes and deletes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster,categories=mlkeeper
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Instance",type=string,JSONPath=`.spec.automationCompositionId`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PendingOrder struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// +required
	Spec PendingOrderSpec `json:"spec"`
}

// PendingOrderList is a list of PendingOrders.
//
// +kubebuilder:object:root=true
type PendingOrderList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PendingOrder `json:"items"`
}
