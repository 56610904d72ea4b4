package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Tfserv is TensorFlow Serving: a Deployment of model servers behind a Service.
//
// +kubebuilder:object:root=true
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 55 && !self.metadata.name.contains('.')",message="metadata.name must have no '.' and at most 55 characters, since the Service <name>-service is named after it: choose a shorter name"
// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.canary) || size(self.metadata.name) <= 48",message="metadata.name must have at most 48 characters with spec.canary, since the Service <name>-canary-service is named after it"
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:scope=Namespaced,path=tfservs,singular=tfserv,shortName=tfs,categories=ml
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Models",type=string,JSONPath=`.status.modelsAvailable`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Tfserv struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// +optional
	Spec TfservSpec `json:"spec,omitempty"`
	// +optional
	Status TfservStatus `json:"status,omitempty"`
}

// TfservList is a list of Tfservs.
//
// +kubebuilder:object:root=true
type TfservList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Tfserv `json:"items"`
}
