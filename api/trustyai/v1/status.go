package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// MigrationPhase is a phase of the migration from PVC to DATABASE.
//
// +kubebuilder:validation:Enum=Pending;Copying;Verifying;Done;Failed
type MigrationPhase string

// The phases of a migration, in order; Failed can follow each of the first three.
const (
	MigrationPending   MigrationPhase = "Pending"
	MigrationCopying   MigrationPhase = "Copying"
	MigrationVerifying MigrationPhase = "Verifying"
	MigrationDone      MigrationPhase = "Done"
	MigrationFailed    MigrationPhase = "Failed"
)

// MigrationStatus tells how far a migration between storage formats is.
type MigrationStatus struct {
	// phase is Pending, Copying, Verifying, Done or Failed.
	// +required
	Phase MigrationPhase `json:"phase"`
	// from is the format that the data was in.
	// +required
	From StorageFormat `json:"from"`
	// to is the format that the data goes to.
	// +required
	To StorageFormat `json:"to"`
	// request is the value of the trustyai.opendatahub.io/db-migration annotation that this attempt answers; another
	// value asks for another attempt.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Request string `json:"request,omitempty"`
	// generation is the generation of the spec that this attempt answers.
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// message says what happens now, or what failed and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`
	// interruptedAt is when the pod that writes to the volume was stopped, so that nothing is written while it is copied.
	// +optional
	InterruptedAt *metav1.Time `json:"interruptedAt,omitempty"`
	// resumedAt is when a pod served again: from the database, or after a failure from the volume.
	// +optional
	ResumedAt *metav1.Time `json:"resumedAt,omitempty"`
}

// WiringStatus tells of one inference service whether its payloads reach this TrustyAI service.
type WiringStatus struct {
	// name is the name of the InferenceService, Deployment or ConfigMap.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// kind is InferenceService, Deployment or ConfigMap.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// wired is True or False.
	// +required
	Wired metav1.ConditionStatus `json:"wired"`
	// reason is one CamelCase word.
	// +required
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason"`
	// message says why not, and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// TrustyAIServiceStatus is what MLKeeper observed.
type TrustyAIServiceStatus struct {
	// conditions are Ready, Reconciling and Stalled, the ADR's StorageReady and ModelMeshReady, and upstream's
	// InferenceServicesPresent, PVCAvailable, DBAvailable, RouteAvailable, Available, ProvisioningSucceeded, Degraded.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation that this status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase is Ready or "Not Ready".
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Phase string `json:"phase,omitempty"`
	// ready is "True" or "False", as upstream's deprecated field of that name.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Ready string `json:"ready,omitempty"`
	// replicas is the number of pods, ready or not, for the scale subresource.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// selector selects the pods, for the scale subresource.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Selector string `json:"selector,omitempty"`
	// url is the address that inference payloads are sent to.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url,omitempty"`
	// externalURL is the address outside of the cluster: that of the Route once a router has admitted it, else of the Ingress.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	ExternalURL string `json:"externalURL,omitempty"`
	// exposure is how the service is reached now. It differs from the spec while a problem has the pods stay as they are.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Exposure Exposure `json:"exposure,omitempty"`
	// tlsSecretName is the Secret with the certificate that the pods of a Secured service have.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TLSSecretName string `json:"tlsSecretName,omitempty"`
	// imageGeneration is what the image of the pods is: Java, JavaTLS or Python. Ports, paths and environment follow from it.
	// +optional
	ImageGeneration ImageGeneration `json:"imageGeneration,omitempty"`
	// lastUpdateTime is when this status last changed otherwise.
	// +optional
	LastUpdateTime *metav1.Time `json:"lastUpdateTime,omitempty"`
	// lastHandledReconcileAt is the last value of the keeper.mlkeeper.dev/reconcile-at annotation that was handled.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`
	// storageFormat is the format that the running pods use; it differs from the spec while a migration runs.
	// +optional
	StorageFormat StorageFormat `json:"storageFormat,omitempty"`
	// migration tells how far a migration between storage formats is.
	// +optional
	Migration *MigrationStatus `json:"migration,omitempty"`
	// inferenceServices tells of each inference service whether it is wired; at most 100 are listed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	InferenceServices []WiringStatus `json:"inferenceServices,omitempty"`
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
