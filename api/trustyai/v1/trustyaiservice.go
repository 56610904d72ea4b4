package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// TrustyAIService is one TrustyAI service: model monitoring for the inference services of its namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:validation:XValidation:rule="has(self.spec.trustyaiMetrics) || (size(self.metadata.name) <= 54 && !self.metadata.name.contains('.'))",message="metadata.name must have no '.' and at most 54 characters, since the Services <name>-tls and <name>-internal are named after it: choose a shorter name"
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:scope=Namespaced,path=trustyaiservices,singular=trustyaiservice,shortName=tas,categories=ml
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type TrustyAIService struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// +required
	Spec TrustyAIServiceSpec `json:"spec"`
	// +optional
	Status TrustyAIServiceStatus `json:"status,omitempty"`
}

// TrustyAIServiceList is a list of TrustyAIServices.
//
// +kubebuilder:object:root=true
type TrustyAIServiceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TrustyAIService `json:"items"`
}
