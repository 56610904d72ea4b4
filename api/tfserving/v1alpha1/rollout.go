package v1alpha1

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// StrategySpec says how pods are replaced. Its fields are those of a Deployment in apps/v1.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) || !has(self.type) || self.type != 'Recreate'",message="spec.strategy.rollingUpdate needs type RollingUpdate: Recreate stops all pods before it starts others"
type StrategySpec struct {
	// type is RollingUpdate or Recreate, which stops all pods before it starts others. The default is RollingUpdate, and Recreate for a
	// single pod with a claim that only one node, or one pod, can mount.
	// +optional
	// +kubebuilder:validation:Enum=RollingUpdate;Recreate
	Type appsv1.DeploymentStrategyType `json:"type,omitempty"`
	// rollingUpdate says how many pods more or fewer than declared there may be meanwhile.
	// +optional
	RollingUpdate *RollingUpdateSpec `json:"rollingUpdate,omitempty"`
}

// RollingUpdateSpec says how many pods more or fewer than declared there may be during a rolling update.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxSurge) || !has(self.maxUnavailable) || !((type(self.maxSurge) == int ? self.maxSurge == 0 : self.maxSurge == '0%') && (type(self.maxUnavailable) == int ? self.maxUnavailable == 0 : self.maxUnavailable == '0%'))",message="spec.strategy.rollingUpdate: maxSurge and maxUnavailable must not both be 0, else no pod can be replaced"
type RollingUpdateSpec struct {
	// maxSurge is how many pods more than declared there may be, as a number or a percentage. The default is 1, and 0 with GPUs or a claim
	// that only one node can mount: an additional pod would find no free GPU, or could not mount the claim, and the update would never end.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1000 : self.matches('^(0|[1-9][0-9]{0,2}|1000)%$')",message="spec.strategy.rollingUpdate.maxSurge must be a number from 0 to 1000, or a percentage such as 25%"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
	// maxUnavailable is how many pods fewer than declared there may be, as a number or a percentage. The default is 0, and 1 where
	// maxSurge is 0.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1000 : self.matches('^(0|[1-9][0-9]?|100)%$')",message="spec.strategy.rollingUpdate.maxUnavailable must be a number from 0 to 1000, or a percentage up to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// ConfigReload says how servers that run get another model config.
type ConfigReload string

const (
	// ConfigRestart replaces the pods.
	ConfigRestart ConfigReload = "Restart"
	// ConfigPoll has the servers read the file again.
	ConfigPoll ConfigReload = "Poll"
)
