package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SeldonOperator is a Seldon stack: Seldon Core and Seldon Deploy, and what is switched on besides.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,path=seldonoperators,singular=seldonoperator,shortName=seldon-operator,categories=ml
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Components",type=string,JSONPath=`.status.componentsReady`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type SeldonOperator struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec may be null: server-side apply makes that of an empty one from which every field was taken.
	// +optional
	// +nullable
	Spec SeldonOperatorSpec `json:"spec,omitempty"`
	// +optional
	Status SeldonOperatorStatus `json:"status,omitempty"`
}

// SeldonOperatorList is a list of SeldonOperators.
//
// +kubebuilder:object:root=true
type SeldonOperatorList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SeldonOperator `json:"items"`
}
