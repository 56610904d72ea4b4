package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// ModelStatus is what the model servers say of one version of a model.
type ModelStatus struct {
	// name is the name of the model.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// version is the number of the version; empty while a server knows of none.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Version string `json:"version,omitempty"`
	// state is that of the server that is behind: START, LOADING, AVAILABLE, UNLOADING or END, as TensorFlow Serving says,
	// or UNKNOWN where a server does not know of the model.
	// +required
	// +kubebuilder:validation:MaxLength=32
	State string `json:"state"`
	// error is what the server says went wrong.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Error string `json:"error,omitempty"`
	// lastChange is when the servers began to say so.
	// +optional
	LastChange *metav1.Time `json:"lastChange,omitempty"`
}

// TfservStatus is what MLKeeper observed.
type TfservStatus struct {
	// active are references to the Deployment and the Service.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Active []corev1.ObjectReference `json:"active,omitempty"`
	// conditions are Ready, Reconciling and Stalled, and Progressing, ConfigValid and ModelsAvailable, with spec.canary CanaryAvailable too.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation that this status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// replicas is the number of pods.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// readyReplicas is the number of ready pods.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// selector selects the pods, for the scale subresource.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Selector string `json:"selector,omitempty"`
	// url is where the cluster reaches the REST API.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url,omitempty"`
	// externalURL is where the REST API is reached from outside of the cluster by the Ingress. A route has none, since a listener of its
	// Gateway decides whether it is http or https.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	ExternalURL string `json:"externalURL,omitempty"`
	// configHash is the hash of the model config that the pods were started with last.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ConfigHash string `json:"configHash,omitempty"`
	// modelsAvailable counts the models that every server has available, such as 2/3; empty while no server has answered.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	ModelsAvailable string `json:"modelsAvailable,omitempty"`
	// models is what the model servers say of each model; at most 200 versions are listed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=200
	Models []ModelStatus `json:"models,omitempty"`
	// modelsChangedAt is when the model servers began to say what models lists; they are asked again and again.
	// +optional
	ModelsChangedAt *metav1.Time `json:"modelsChangedAt,omitempty"`
	// modelsAskedAt is when the model servers were asked last. Each renewal is a write, so that answers which change nothing renew it only
	// where spec.modelStatusSeconds is set.
	// +optional
	ModelsAskedAt *metav1.Time `json:"modelsAskedAt,omitempty"`
	// canary is what was observed of spec.canary.
	// +optional
	Canary *CanaryStatus `json:"canary,omitempty"`
	// lastHandledReconcileAt is the last value of the keeper.mlkeeper.dev/reconcile-at annotation that was handled.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`
	// skipped names the APIs that the cluster does not serve and whose objects are therefore left out for now.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=512
	Skipped []string `json:"skipped,omitempty"`
	// warnings tell of input that was accepted but not used as given.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=1024
	Warnings []string `json:"warnings,omitempty"`
	// inventory lists the objects that MLKeeper made, so that a restart verifies them without a read.
	// +optional
	Inventory keeper.ResourceInventory `json:"inventory,omitzero"`
}
