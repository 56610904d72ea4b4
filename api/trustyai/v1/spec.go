package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// StorageFormat says where a TrustyAI service keeps its inference data.
//
// +kubebuilder:validation:Enum=PVC;DATABASE
type StorageFormat string

const (
	// StoragePVC keeps inference data as files on a PersistentVolumeClaim (TrustyAI ADR 3).
	StoragePVC StorageFormat = "PVC"
	// StorageDatabase keeps inference data in a database (upstream).
	StorageDatabase StorageFormat = "DATABASE"
)

// RetentionPolicy says what happens to the claim of a TrustyAI service that is deleted.
//
// +kubebuilder:validation:Enum=Retain;Delete
type RetentionPolicy string

const (
	// RetentionRetain keeps the claim; it is the default, a deliberate difference from the original operator.
	RetentionRetain RetentionPolicy = "Retain"
	// RetentionDelete deletes the claim, data included.
	RetentionDelete RetentionPolicy = "Delete"
)

// Exposure says how a TrustyAI service is reached.
//
// +kubebuilder:validation:Enum=Plain;Secured
type Exposure string

const (
	// ExposurePlain serves HTTP and a Route without TLS, as TrustyAI ADR 3 says.
	ExposurePlain Exposure = "Plain"
	// ExposureSecured serves TLS behind kube-rbac-proxy and a reencrypt Route, as upstream does.
	ExposureSecured Exposure = "Secured"
)

// ImageGeneration says on which ports, and with which environment, an image of the TrustyAI service works.
//
// +kubebuilder:validation:Enum=Java;JavaTLS;Python
type ImageGeneration string

const (
	// GenerationJava is trustyai-explainability before v0.16.0, which knows no TLS.
	GenerationJava ImageGeneration = "Java"
	// GenerationJavaTLS is trustyai-explainability from v0.16.0 to v0.28.0.
	GenerationJavaTLS ImageGeneration = "JavaTLS"
	// GenerationPython is trustyai-service since August 2026, which serves its API to other pods over TLS alone.
	GenerationPython ImageGeneration = "Python"
)

// TrustyAIServiceSpec is what the owner of a TrustyAI service declares.
//
// +kubebuilder:validation:XValidation:rule="has(self.trustyaiMetrics) || has(self.metrics)",message="spec.trustyaiMetrics (TrustyAI ADR 3) or spec.metrics (upstream) is required: add trustyaiMetrics with a schedule, such as 5s"
// +kubebuilder:validation:XValidation:rule="!has(self.trustyaiMetrics) || !has(self.metrics) || self.trustyaiMetrics.schedule == self.metrics.schedule",messageExpression="'spec.trustyaiMetrics.schedule (' + self.trustyaiMetrics.schedule + ') and spec.metrics.schedule (' + self.metrics.schedule + ') must be equal: remove one of them'"
// +kubebuilder:validation:XValidation:rule="!has(self.trustyaiMetrics) || has(self.data)",message="spec.data is required with spec.trustyaiMetrics (TrustyAI ADR 3): add filename and format"
// +kubebuilder:validation:XValidation:rule="has(self.trustyaiMetrics) == has(oldSelf.trustyaiMetrics)",message="spec.trustyaiMetrics decides the names of the children and can be neither added nor removed later: create a new TrustyAIService instead"
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || self.replicas <= 1 || self.storage.format != 'PVC'",message="spec.replicas must be at most 1 with spec.storage.format PVC, since two pods that write to one volume lose data: set replicas to 1, or spec.storage.format to DATABASE"
type TrustyAIServiceSpec struct {
	// replicas is the number of pods; the default is 1, and with format PVC also the most.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Replicas *int32 `json:"replicas,omitempty"`
	// storage says where inference data is kept.
	// +required
	Storage StorageSpec `json:"storage"`
	// data describes the data files; required with trustyaiMetrics.
	// +optional
	Data *DataSpec `json:"data,omitempty"`
	// trustyaiMetrics is the metrics schedule as TrustyAI ADR 3 spells it. A service created with it gets the children
	// of the ADR under the names of the ADR.
	// +optional
	TrustyAIMetrics *TrustyAIMetricsSpec `json:"trustyaiMetrics,omitempty"`
	// metrics is the metrics schedule as the upstream operator spells it. A service created without trustyaiMetrics
	// gets upstream's children under upstream's names.
	// +optional
	Metrics *MetricsSpec `json:"metrics,omitempty"`
	// serviceMonitoring overrides the ServiceMonitor that is made for the service.
	// +optional
	ServiceMonitoring *ServiceMonitoringSpec `json:"serviceMonitoring,omitempty"`
	// deletionPolicy says what happens to the children when the TrustyAIService is deleted: Delete, the default, deletes them,
	// with the claim as spec.storage.retentionPolicy says; Orphan leaves all of them.
	// +optional
	DeletionPolicy keeper.DeletionPolicy `json:"deletionPolicy,omitempty"`
	// exposure is Plain or Secured; the default is Plain with trustyaiMetrics and Secured otherwise.
	// +optional
	Exposure Exposure `json:"exposure,omitempty"`
	// tls says where the certificates of a Secured service come from; without it MLKeeper takes OpenShift's
	// service-ca, else cert-manager, else a certificate authority of its own.
	// +optional
	TLS *TLSSpec `json:"tls,omitempty"`
	// image overrides the image of the TrustyAI service; the default is the operator's --trustyai-image.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`
	// imageGeneration says what the image is, where its name does not tell: Java (trustyai-explainability before v0.16.0),
	// JavaTLS (v0.16.0 to v0.28.0) or Python (trustyai-service since August 2026).
	// +optional
	ImageGeneration ImageGeneration `json:"imageGeneration,omitempty"`
	// imagePullPolicy is Always, IfNotPresent or Never, for all containers; the default is that of Kubernetes: Always for an image without a
	// tag or with the tag latest, otherwise IfNotPresent.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// imagePullSecrets are Secrets of the namespace for pulling images.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(s, has(s.name) && size(s.name) > 0)",message="spec.imagePullSecrets needs a name in each item"
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// env are further environment variables of the trustyai-service container, such as JAVA_OPTS; one that MLKeeper sets itself is refused.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Env []corev1.EnvVar `json:"env,omitempty"`
	// resources are the compute resources of the trustyai-service container.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// proxy configures the kube-rbac-proxy container of a Secured service.
	// +optional
	Proxy *ProxySpec `json:"proxy,omitempty"`
	// podSecurityContext replaces the security context of the pods; the default never runs as root, has the seccomp profile of the
	// runtime and, for a volume outside of OpenShift, the file group 1001.
	// +optional
	PodSecurityContext *corev1.PodSecurityContext `json:"podSecurityContext,omitempty"`
	// priorityClassName is the PriorityClass of the pods.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// scheduling says on which nodes the pods may run.
	// +optional
	Scheduling *keeper.SchedulingSpec `json:"scheduling,omitempty"`
	// podDisruptionBudget limits how many pods a drain may take away at once.
	// +optional
	PodDisruptionBudget *keeper.DisruptionSpec `json:"podDisruptionBudget,omitempty"`
	// ingress makes an Ingress for the service, for clusters without Routes.
	// +optional
	Ingress *keeper.IngressSpec `json:"ingress,omitempty"`
	// httpRoute makes an HTTPRoute of the Gateway API for the service, where that API is served.
	// +optional
	HTTPRoute *keeper.GatewayRouteSpec `json:"httpRoute,omitempty"`
	// inferenceServices says which InferenceServices of the namespace are wired; the default is all of them.
	// +optional
	InferenceServices *InferenceServicesSpec `json:"inferenceServices,omitempty"`
}

// StorageSpec says where inference data is kept.
//
// +kubebuilder:validation:XValidation:rule="self.format != 'PVC' || (has(self.folder) && size(self.folder) > 0)",message="spec.storage.folder is required with format PVC: set an absolute path such as /inputs"
// +kubebuilder:validation:XValidation:rule="self.format != 'PVC' || has(self.size) || has(self.existingClaim)",message="spec.storage.size is required with format PVC: set a quantity such as 1Gi"
// +kubebuilder:validation:XValidation:rule="!has(self.existingClaim) || !has(self.size) && !has(self.pv) && !has(self.storageClassName) && !has(self.accessModes) && !has(self.retentionPolicy)",message="spec.storage.existingClaim excludes size, pv, storageClassName, accessModes and retentionPolicy, which describe a claim that MLKeeper makes: remove them"
// +kubebuilder:validation:XValidation:rule="has(self.existingClaim) == has(oldSelf.existingClaim) && (!has(self.existingClaim) || self.existingClaim == oldSelf.existingClaim)",message="spec.storage.existingClaim can be neither added, changed nor removed, since the data does not move to another claim: create a new TrustyAIService instead"
// +kubebuilder:validation:XValidation:rule="has(self.accessModes) == has(oldSelf.accessModes) && (!has(self.accessModes) || self.accessModes == oldSelf.accessModes)",message="spec.storage.accessModes can be neither added, changed nor removed, since those of a claim are immutable: create a new TrustyAIService instead"
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="spec.storage.storageClassName can be neither added, changed nor removed, since that of a claim is immutable: create a new TrustyAIService instead"
// +kubebuilder:validation:XValidation:rule="has(self.pv) == has(oldSelf.pv) && (!has(self.pv) || self.pv == oldSelf.pv)",messageExpression="(has(oldSelf.pv) ? 'spec.storage.pv must stay ' + oldSelf.pv : 'spec.storage.pv cannot be added') + ', since a claim cannot move to another volume: create a new TrustyAIService instead'"
type StorageSpec struct {
	// format is PVC or DATABASE. Changing PVC to DATABASE migrates the data.
	// +required
	Format StorageFormat `json:"format"`
	// folder is the absolute path where the volume is mounted; required with format PVC.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || (self.startsWith('/') && !self.contains(':') && !self.contains('..'))",message="spec.storage.folder must be an absolute path without ':' or '..', such as /inputs"
	Folder string `json:"folder,omitempty"`
	// pv is the name of an existing PersistentVolume that the claim is bound to (TrustyAI ADR 3).
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PV string `json:"pv,omitempty"`
	// size is the size of the claim, a quantity such as 1Gi; required with format PVC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))",message="spec.storage.size must be a positive quantity such as 1Gi"
	Size string `json:"size,omitempty"`
	// existingClaim is a PersistentVolumeClaim of the namespace that is used instead of one that MLKeeper makes; it is never changed or
	// deleted.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ExistingClaim string `json:"existingClaim,omitempty"`
	// accessModes are the access modes of the claim; the default is ReadWriteOnce. There is one pod whatever they are.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:Enum=ReadWriteOnce;ReadWriteOncePod;ReadWriteMany
	AccessModes []corev1.PersistentVolumeAccessMode `json:"accessModes,omitempty"`
	// databaseConfigurations is the name of the Secret with the database credentials; the default is
	// <name>-db-credentials.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	DatabaseConfigurations string `json:"databaseConfigurations,omitempty"`
	// storageClassName is the storage class of the claim. The default is "" in the ADR's shape (no dynamic
	// provisioning), and the default class of the cluster otherwise.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
	// retentionPolicy says what happens to the claim when the TrustyAIService is deleted: Retain, the default, keeps it and
	// its data; Delete deletes it.
	// +optional
	RetentionPolicy RetentionPolicy `json:"retentionPolicy,omitempty"`
}

// DataSpec describes the data files.
type DataSpec struct {
	// filename is the suffix of the file that the service uses for data.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	Filename string `json:"filename,omitempty"`
	// format is the format of the data file, such as CSV.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Format string `json:"format,omitempty"`
}

// TrustyAIMetricsSpec is the metrics schedule of TrustyAI ADR 3.
type TrustyAIMetricsSpec struct {
	// schedule is how often metrics are calculated, a duration such as 5s or 1m.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(ms|s|m|h))+$')",message="schedule must be a duration such as 5s, 1m or 1h30m"
	Schedule string `json:"schedule"`
}

// MetricsSpec is the metrics schedule of the upstream operator.
type MetricsSpec struct {
	// schedule is how often metrics are calculated, a duration such as 5s or 1m.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(ms|s|m|h))+$')",message="schedule must be a duration such as 5s, 1m or 1h30m"
	Schedule string `json:"schedule"`
	// batchSize is the number of observations per calculation; the default is 5000.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000000
	BatchSize *int32 `json:"batchSize,omitempty"`
}

// ServiceMonitoringSpec overrides the ServiceMonitor that is made for the service.
type ServiceMonitoringSpec struct {
	// ref is a partial ServiceMonitor (TrustyAI ADR 3). It may give labels and annotations, and of its one endpoint interval,
	// scrapeTimeout, honorTimestamps, and metricRelabelings that keep or drop; null takes a default out. The rest is refused,
	// since it would be used with the rights of MLKeeper and of Prometheus.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Ref *runtime.RawExtension `json:"ref,omitempty"`
	// interval is the scrape interval, a Prometheus duration of at least 1s; the default is 4s.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,2}y)?([0-9]{1,3}w)?([0-9]{1,4}d)?([0-9]{1,5}h)?([0-9]{1,6}m)?([0-9]{1,7}s)?([0-9]{1,9}ms)?)$`
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('[1-9][0-9]*(y|w|d|h|s|m([0-9]|$))|[1-9][0-9]{3,}ms')",message="spec.serviceMonitoring.interval must be 1s or more: a shorter one overloads Prometheus"
	Interval string `json:"interval,omitempty"`
	// metricNames are the metrics asked for; the default is trustyai_spd and trustyai_dir.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=200
	// +kubebuilder:validation:items:Pattern=`^[a-zA-Z_:][a-zA-Z0-9_:]*$`
	MetricNames []string `json:"metricNames,omitempty"`
}

// ProxySpec configures the kube-rbac-proxy container of a Secured service.
type ProxySpec struct {
	// resources are the compute resources of the container; the default requests 50m and 32Mi, with limits of 100m and 64Mi.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
}

// TLSSpec says where the certificates of a Secured service come from.
type TLSSpec struct {
	// secretName is a kubernetes.io/tls Secret of the namespace, used for the proxy and for the service itself.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`
	// issuerRef names a cert-manager issuer; without it a self-signed one is made where cert-manager is served.
	// +optional
	IssuerRef *IssuerReference `json:"issuerRef,omitempty"`
}

// IssuerReference names a cert-manager Issuer or ClusterIssuer.
type IssuerReference struct {
	// kind is Issuer or ClusterIssuer; the default is Issuer.
	// +optional
	// +kubebuilder:validation:Enum=Issuer;ClusterIssuer
	// +kubebuilder:default=Issuer
	Kind string `json:"kind,omitempty"`
	// name is the name of the issuer.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// InferenceServicesSpec says which InferenceServices are wired.
type InferenceServicesSpec struct {
	// selector selects InferenceServices of the namespace by label; empty selects all.
	// +optional
	// +structType=atomic
	Selector *keeper.LabelSelector `json:"selector,omitempty"`
}
