package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// ApplicationStatus is what was observed of one application.
type ApplicationStatus struct {
	// name is that of the application.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// phase is Pending, Progressing, Ready or Failed.
	// +required
	// +kubebuilder:validation:MaxLength=16
	Phase string `json:"phase"`
	// objects is how many objects the application has, ready how many of them are as declared and healthy.
	// +optional
	Objects int32 `json:"objects,omitempty"`
	// +optional
	Ready int32 `json:"ready,omitempty"`
	// message says what is waited for, or what failed.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// revision is that of the repository when all objects of the application were last as declared.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Revision string `json:"revision,omitempty"`
}

// RepoCache is a repository as it was used.
type RepoCache struct {
	// name is that of the repository.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// revision is the SHA-256 digest of the archive.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Revision string `json:"revision,omitempty"`
}

// KfDefStatus is what MLKeeper observed.
type KfDefStatus struct {
	// conditions are Ready, Reconciling and Stalled, and the original's Available, Degraded and Pending, of which one at
	// most is True.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation that this status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// rendering is how the applications are rendered. It is not detected again: only spec.rendering changes it.
	// +optional
	Rendering Rendering `json:"rendering,omitempty"`
	// applicationsReady counts the applications that are ready, such as 12/44.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	ApplicationsReady string `json:"applicationsReady,omitempty"`
	// applications are in the order of the spec.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=200
	Applications []ApplicationStatus `json:"applications,omitempty"`
	// reposCache are the repositories as they were used last.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	ReposCache []RepoCache `json:"reposCache,omitempty"`
	// lastHandledReconcileAt is the last value of the keeper.mlkeeper.dev/reconcile-at annotation that was handled.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`
	// warnings tell of input that was accepted but not used as given.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=1024
	Warnings []string `json:"warnings,omitempty"`
	// inventory lists the objects that MLKeeper made, where the KfDef itself owns them.
	// +optional
	Inventory keeper.ResourceInventory `json:"inventory,omitzero"`
}
