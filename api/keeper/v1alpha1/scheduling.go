package v1alpha1

import corev1 "k8s.io/api/core/v1"

// SchedulingSpec says on which nodes the pods may run. Its fields are those of a PodSpec.
type SchedulingSpec struct {
	// nodeSelector selects nodes by label.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// tolerations allow the pods on tainted nodes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// affinity is the affinity of the pods.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// topologySpreadConstraints spread the pods over the topology.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
}

// DisruptionSpec is a PodDisruptionBudget. Its fields are those of policy/v1.
//
// +kubebuilder:validation:XValidation:rule="has(self.minAvailable) != has(self.maxUnavailable)",message="set exactly one of spec.podDisruptionBudget.minAvailable and maxUnavailable"
type DisruptionSpec struct {
	// minAvailable is the number of pods that must stay.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	MinAvailable *int32 `json:"minAvailable,omitempty"`
	// maxUnavailable is the number of pods that may be away.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	MaxUnavailable *int32 `json:"maxUnavailable,omitempty"`
}
