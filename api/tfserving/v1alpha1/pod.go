package v1alpha1

import corev1 "k8s.io/api/core/v1"

// EnvVar is a variable of the environment of the server, as in a container.
//
// +kubebuilder:validation:XValidation:rule="!has(self.valueFrom) || !has(self.value) || size(self.value) == 0",message="spec.env: value and valueFrom exclude each other: take one of the two out"
type EnvVar struct {
	// name is the name of the variable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z][-._a-zA-Z0-9]*$')",message="the name of a variable in spec.env may have letters, digits, '-', '_' and '.', and does not begin with a digit"
	Name string `json:"name"`
	// value is its value, in which $(OTHER) stands for a variable before it.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Value string `json:"value,omitempty"`
	// valueFrom is where the kubelet reads the value when a pod starts.
	// +optional
	ValueFrom *EnvVarSource `json:"valueFrom,omitempty"`
}

// EnvVarSource is where the kubelet reads the value of a variable, in the namespace of the pod.
//
// +kubebuilder:validation:XValidation:rule="(has(self.secretKeyRef) ? 1 : 0) + (has(self.configMapKeyRef) ? 1 : 0) + (has(self.fieldRef) ? 1 : 0) + (has(self.resourceFieldRef) ? 1 : 0) == 1",message="valueFrom in spec.env must be exactly one of secretKeyRef, configMapKeyRef, fieldRef and resourceFieldRef"
// +kubebuilder:validation:XValidation:rule="(!has(self.secretKeyRef) || has(self.secretKeyRef.name) && size(self.secretKeyRef.name) > 0) && (!has(self.configMapKeyRef) || has(self.configMapKeyRef.name) && size(self.configMapKeyRef.name) > 0)",message="secretKeyRef and configMapKeyRef in spec.env need a name: name a Secret or ConfigMap of the namespace"
type EnvVarSource struct {
	// secretKeyRef is the key of a Secret.
	// +optional
	SecretKeyRef *corev1.SecretKeySelector `json:"secretKeyRef,omitempty"`
	// configMapKeyRef is the key of a ConfigMap.
	// +optional
	ConfigMapKeyRef *corev1.ConfigMapKeySelector `json:"configMapKeyRef,omitempty"`
	// fieldRef is a field of the pod, such as metadata.name.
	// +optional
	FieldRef *corev1.ObjectFieldSelector `json:"fieldRef,omitempty"`
	// resourceFieldRef is a resource of the container, such as limits.cpu.
	// +optional
	ResourceFieldRef *corev1.ResourceFieldSelector `json:"resourceFieldRef,omitempty"`
}

// LabelValue is the value of a label.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
type LabelValue string

// AnnotationValue is the value of an annotation.
//
// +kubebuilder:validation:MaxLength=8192
type AnnotationValue string
