package v1alpha1

// CanaryMode says what the servers of a canary get.
type CanaryMode string

// The modes of a canary.
const (
	// CanaryShare gives them a share of the requests.
	CanaryShare CanaryMode = "Canary"
	// CanaryShadow gives them copies of a share of the requests; what they answer is dropped.
	CanaryShadow CanaryMode = "Shadow"
)

// CanaryState says what becomes of a canary.
type CanaryState string

// The states of a canary.
const (
	CanaryRunning  CanaryState = "Running"
	CanaryPromoted CanaryState = "Promoted"
	CanaryAborted  CanaryState = "Aborted"
)

// CanarySpec is a version of a model that servers of its own have, which get a share of the requests.
type CanarySpec struct {
	// model is the model; it must be one of the model config.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="a model's name may have letters, digits, '-', '_' and '.'"
	Model string `json:"model"`
	// version is the version of the model that the servers of the canary have.
	// +required
	// +kubebuilder:validation:Minimum=0
	Version int64 `json:"version"`
	// weight is how many of a hundred requests they get, 0 to 100, once every ready one of them has the version available; the default
	// is 0.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 100",message="spec.canary.weight must be a percentage from 0 to 100"
	Weight *int32 `json:"weight,omitempty"`
	// mode is Canary, or Shadow, where they get copies of the requests and what they answer is dropped; the default is Canary.
	// +optional
	// +kubebuilder:validation:Enum=Canary;Shadow
	Mode CanaryMode `json:"mode,omitempty"`
	// replicas is the number of servers of the canary, 1 to 1000; the default is 1. There are none while spec.replicas is 0.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Replicas *int32 `json:"replicas,omitempty"`
	// state is Running, Promoted, where the canary goes once all other servers have the version available, which the model config has to
	// say, or Aborted, where it goes at once; the default is Running.
	// +optional
	// +kubebuilder:validation:Enum=Running;Promoted;Aborted
	State CanaryState `json:"state,omitempty"`
}

// CanaryStatus is what MLKeeper observed of a canary.
type CanaryStatus struct {
	// model is the model.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Model string `json:"model"`
	// version is the version that the servers of the canary have.
	// +required
	Version int64 `json:"version"`
	// state is Running, also while it is not promoted yet; Promoted or Aborted once it gets no requests any more.
	// +required
	// +kubebuilder:validation:MaxLength=32
	State CanaryState `json:"state"`
	// weight is how many of a hundred requests its servers get, or get copies of.
	// +required
	Weight int32 `json:"weight"`
	// availableReplicas is how many of its servers are ready and have the version available.
	// +required
	AvailableReplicas int32 `json:"availableReplicas"`
	// message says what it waits for, or what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`
}
