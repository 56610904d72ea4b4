package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KfDef is a Kubeflow: applications that are rendered with kustomize from repositories of manifests, in order.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,path=kfdefs,singular=kfdef,categories=ml
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Applications",type=string,JSONPath=`.status.applicationsReady`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.dependsOn) || self.spec.dependsOn.all(d, d.name != self.metadata.name || size(d.__namespace__) > 0)",message="spec.dependsOn names the KfDef itself: remove that entry"
type KfDef struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// +optional
	Spec KfDefSpec `json:"spec,omitempty"`
	// +optional
	Status KfDefStatus `json:"status,omitempty"`
}

// KfDefList is a list of KfDefs.
//
// +kubebuilder:object:root=true
type KfDefList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []KfDef `json:"items"`
}
