package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ElementOrder is the last order on an element.
type ElementOrder struct {
	// type is Deploy, Undeploy, Delete, Lock, Unlock, Update, Migrate, Precheck, Prepare or Review.
	// +required
	// +kubebuilder:validation:Enum=Deploy;Undeploy;Delete;Lock;Unlock;Update;Migrate;Precheck;Prepare;Review
	Type string `json:"type"`
	// id is the id of the message that gave the order.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id,omitempty"`
	// earlier are the ids of the messages that gave the orders before, the newest first: brokers deliver messages again.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=64
	Earlier []string `json:"earlier,omitempty"`
	// time is that of the message.
	// +required
	Time metav1.MicroTime `json:"time"`
	// received is when the order came first, or was no longer held, from which its timeouts are counted.
	// +required
	Received metav1.MicroTime `json:"received"`
}

// ElementContent is what an element is made of.
type ElementContent struct {
	// compositionId is the composition that the element is defined in.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	CompositionID string `json:"compositionId,omitempty"`
	// definition is the definition of the element in its composition.
	// +optional
	Definition ConceptIdentifier `json:"definition,omitempty"`
	// payload leads to the properties of the definition and those of the element, which may hold credentials.
	// +optional
	Payload *PayloadReference `json:"payload,omitempty"`
	// common are the properties of the definition, properties those of the element, which win. Earlier releases stored them here;
	// they are moved into the Secret of payload.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Common *runtime.RawExtension `json:"common,omitempty"`
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Properties *runtime.RawExtension `json:"properties,omitempty"`
}

// ElementStates are a deploy state and a lock state, as ACM runtimes spell them.
type ElementStates struct {
	// +optional
	// +kubebuilder:validation:MaxLength=32
	DeployState string `json:"deployState,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=32
	LockState string `json:"lockState,omitempty"`
}

// CompositionElementSpec is what an ACM runtime has ordered of an element. The participant writes it.
type CompositionElementSpec struct {
	// participantId is the participant that the order was given to.
	// +required
	// +kubebuilder:validation:MaxLength=64
	ParticipantID string `json:"participantId"`
	// automationCompositionId is the automation composition that the element belongs to.
	// +required
	// +kubebuilder:validation:MaxLength=64
	AutomationCompositionID string `json:"automationCompositionId"`
	// revision is the runtime's revision of the automation composition; empty from runtimes before Quebec.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Revision string `json:"revision,omitempty"`
	// order is the last order; absent for an element that is only known of.
	// +optional
	Order *ElementOrder `json:"order,omitempty"`
	// lastReportedState are the states that the runtime told of an element without an order.
	// +optional
	LastReportedState *ElementStates `json:"lastReportedState,omitempty"`
	// exists says whether the services of the element should exist.
	// +optional
	Exists bool `json:"exists,omitempty"`
	// content is what the services are made of.
	// +optional
	Content ElementContent `json:"content,omitempty"`
	// previous is what they were made of before an update or a migration; its failure goes back to it.
	// +optional
	Previous *ElementContent `json:"previous,omitempty"`
	// pendingContent is what a preparation, a review or a precheck asks about; no service is made of it.
	// +optional
	PendingContent *ElementContent `json:"pendingContent,omitempty"`
}

// OrderOutcome is how an order ended.
type OrderOutcome struct {
	ElementStates `json:",inline"`
	// orderId and type are those of the order.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	OrderID string `json:"orderId,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Type string `json:"type,omitempty"`
	// failure says why the order failed; empty for success.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Failure string `json:"failure,omitempty"`
}

// ElementCondition is how an element fares while it is deployed, or while its order is hindered, as ACM runtimes spell it.
type ElementCondition struct {
	// operationalState is ENABLED or DISABLED.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	OperationalState string `json:"operationalState,omitempty"`
	// useState is IN_USE or IDLE.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	UseState string `json:"useState,omitempty"`
	// outProperties are the URLs and model states of the services, and as message what an order waits for that takes long.
	// +optional
	// +kubebuilder:validation:MaxProperties=1000
	OutProperties map[string]string `json:"outProperties,omitempty"`
}

// Acknowledgement is what the runtime was told last.
type Acknowledgement struct {
	OrderOutcome     `json:",inline"`
	ElementCondition `json:",inline"`
}

// ElementService is one InferenceService of an element.
type ElementService struct {
	// +required
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// ready says that the service is as ordered, and serves.
	// +optional
	Ready bool `json:"ready,omitempty"`
	// url is where the service is reached.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	URL string `json:"url,omitempty"`
	// modelState is the state of its model, such as Loaded.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ModelState string `json:"modelState,omitempty"`
	// message says what the service lacks.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// CompositionElementStatus is what MLKeeper observed.
type CompositionElementStatus struct {
	ElementStates    `json:",inline"`
	ElementCondition `json:",inline"`
	// conditions are Ready, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation that this status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// outcome is how the order ended; absent while it is being carried out.
	// +optional
	Outcome *OrderOutcome `json:"outcome,omitempty"`
	// acknowledged is what the runtime was told last; the participant writes it.
	// +optional
	Acknowledged *Acknowledgement `json:"acknowledged,omitempty"`
	// services are the InferenceServices of the element.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Services []ElementService `json:"services,omitempty"`
	// servicesReady counts the services that are ready, such as 2/5.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	ServicesReady string `json:"servicesReady,omitempty"`
	// url is where the first service is reached.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	URL string `json:"url,omitempty"`
	// lastHandledReconcileAt is the last value of the keeper.mlkeeper.dev/reconcile-at annotation that was handled.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`
	// warnings tell of input that was accepted but not used as given.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=1024
	Warnings []string `json:"warnings,omitempty"`
	// inventory lists the services that MLKeeper made.
	// +optional
	Inventory ResourceInventory `json:"inventory,omitzero"`
}

// CompositionElement is an element of an ONAP automation composition; its name is the element's id. It is cluster-scoped so
// that it may own InferenceServices in every namespace. The participant makes it by the orders of an ACM runtime, and deletes
// it once the runtime knows that the element is deleted.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=ce,categories=ml;mlkeeper
// +kubebuilder:printcolumn:name="Order",type=string,JSONPath=`.spec.order.type`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.deployState`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Services",type=string,JSONPath=`.status.servicesReady`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Instance",type=string,priority=1,JSONPath=`.spec.automationCompositionId`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CompositionElement struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// +required
	Spec CompositionElementSpec `json:"spec"`
	// +optional
	Status CompositionElementStatus `json:"status,omitempty"`
}

// CompositionElementList is a list of CompositionElements.
//
// +kubebuilder:object:root=true
type CompositionElementList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CompositionElement `json:"items"`
}
