package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// ComponentStatus is what was observed of one component.
type ComponentStatus struct {
	// name is core, enterprise, analytics, catalogue or payloadstore, or routing and detectors, which have no chart.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// phase is Pending, Progressing, Ready, Suspended or Failed.
	// +required
	// +kubebuilder:validation:MaxLength=16
	Phase string `json:"phase"`
	// chart is the name of the chart, and version its version.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Chart string `json:"chart,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`
	// digest is the sha256 of the chart's archive.
	// +optional
	// +kubebuilder:validation:MaxLength=80
	Digest string `json:"digest,omitempty"`
	// valuesDigest is a keyed digest of all values that the chart was rendered with, and of its patches and commonMetadata where it has some.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ValuesDigest string `json:"valuesDigest,omitempty"`
	// revision counts the charts, values and patches that the component was rendered from, as that of a Helm release does; the first is 1.
	// Templates see it as .Release.Revision.
	// +optional
	Revision int32 `json:"revision,omitempty"`
	// installedRevision is the first revision that was ready. Templates see those after it as upgrades (.Release.IsUpgrade), and their
	// hooks are those of an upgrade.
	// +optional
	InstalledRevision int32 `json:"installedRevision,omitempty"`
	// definitionsVersion is the newest version of the chart that was rendered: an older one does not replace its
	// CustomResourceDefinitions.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	DefinitionsVersion string `json:"definitionsVersion,omitempty"`
	// history has the last five revisions, the newest first, as helm history has those of a release.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	History []ComponentRevision `json:"history,omitempty"`
	// keptRevision is the revision that is kept for a rollback, in the Secret NAME-revisions, and keptDigest a keyed digest of it.
	// +optional
	KeptRevision int32 `json:"keptRevision,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=64
	KeptDigest string `json:"keptDigest,omitempty"`
	// objects is how many objects the component has, ready how many of them are as declared and healthy.
	// +optional
	Objects int32 `json:"objects,omitempty"`
	// +optional
	Ready int32 `json:"ready,omitempty"`
	// trial says that the component is meant for trying out only.
	// +optional
	Trial bool `json:"trial,omitempty"`
	// message says what is waited for, or what failed.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// ComponentRevision is one revision of a component.
type ComponentRevision struct {
	// revision is its number.
	// +required
	Revision int32 `json:"revision"`
	// chart is the name of the chart, and version its version.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Chart string `json:"chart,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`
	// digest is the sha256 of the chart's archive, and valuesDigest a keyed digest of all values, patches and commonMetadata.
	// +optional
	// +kubebuilder:validation:MaxLength=80
	Digest string `json:"digest,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ValuesDigest string `json:"valuesDigest,omitempty"`
	// firstDeployed is when it was applied first.
	// +required
	FirstDeployed metav1.Time `json:"firstDeployed"`
	// outcome is Pending until it was ready, and then Deployed; Failed where a hook of it has failed before, or the API server has refused an
	// object of it for good. Those before it are Superseded if they were ready, Failed, or else Unfinished.
	// +required
	// +kubebuilder:validation:Enum=Pending;Deployed;Failed;Superseded;Unfinished
	Outcome RevisionOutcome `json:"outcome"`
	// progressSeconds is how many seconds of upgrade.timeoutSeconds it has had until progressAt, with onFailure Rollback and while it is
	// Pending. Time in which it was suspended does not count, nor does that without a manager. progressAt is absent while it is suspended.
	// +optional
	ProgressSeconds int32 `json:"progressSeconds,omitempty"`
	// +optional
	ProgressAt *metav1.Time `json:"progressAt,omitempty"`
	// rollbackTo is the revision that this one applies again; 0 where it is no rollback.
	// +optional
	RollbackTo int32 `json:"rollbackTo,omitempty"`
	// reconcileAt is the value that the annotation keeper.mlkeeper.dev/reconcile-at had when it failed: with another one it is tried again.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ReconcileAt string `json:"reconcileAt,omitempty"`
	// message says why it failed.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// RevisionOutcome is what became of a revision.
type RevisionOutcome string

// The outcomes.
const (
	RevisionPending    RevisionOutcome = "Pending"
	RevisionDeployed   RevisionOutcome = "Deployed"
	RevisionFailed     RevisionOutcome = "Failed"
	RevisionSuperseded RevisionOutcome = "Superseded"
	RevisionUnfinished RevisionOutcome = "Unfinished"
)

// SeldonOperatorStatus is what MLKeeper observed.
type SeldonOperatorStatus struct {
	// conditions are Ready, Reconciling and Stalled, and one for each switch: AnalyticsReady, CatalogueReady,
	// PayloadStoreReady, RoutingReady and DetectorsReady.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation that this status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// url is where Seldon Deploy is reached.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	URL string `json:"url,omitempty"`
	// componentsReady counts the components that are ready, such as 2/5.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	ComponentsReady string `json:"componentsReady,omitempty"`
	// components are those that are switched on.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Components []ComponentStatus `json:"components,omitempty"`
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
	// inventory lists the objects that MLKeeper made, where the SeldonOperator itself owns them.
	// +optional
	Inventory keeper.ResourceInventory `json:"inventory,omitzero"`
}
