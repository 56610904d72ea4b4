package v1alpha1

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// TfservSpec is what the owner of a Tfserv declares. The first eight fields are those of the tutorial operator.
//
// +kubebuilder:validation:XValidation:rule="!has(self.grpcPort) || !has(self.restPort) || self.grpcPort != self.restPort",message="spec.grpcPort and spec.restPort must differ: TensorFlow Serving listens on them apart, by default on 8500 and 8501"
// +kubebuilder:validation:XValidation:rule="!(has(self.configMap) && size(self.configMap) > 0 && has(self.models) && size(self.models) > 0)",message="spec.configMap and spec.models exclude each other: declare the models in one of the two"
// +kubebuilder:validation:XValidation:rule="!has(self.configFileLocation) || !has(self.secretFileLocation) || size(self.configFileLocation) == 0 || self.configFileLocation != self.secretFileLocation",message="spec.configFileLocation and spec.secretFileLocation must differ: two volumes cannot be mounted at one path"
// +kubebuilder:validation:XValidation:rule="!has(self.server) || !has(self.server.perModelBatching) || !self.server.perModelBatching || has(self.batching)",message="spec.server.perModelBatching needs spec.batching: set spec.batching to {} for TensorFlow Serving's defaults"
// +kubebuilder:validation:XValidation:rule="!has(self.canary) || has(self.httpRoute) || has(self.grpcRoute)",message="spec.canary needs spec.httpRoute or spec.grpcRoute, which split the requests: an Ingress has no weights"
// +kubebuilder:validation:XValidation:rule="!has(self.canary) || !has(self.models) || size(self.models) == 0 || self.models.exists(m, m.name == self.canary.model)",message="spec.canary.model must be the name of one of spec.models"
// +kubebuilder:validation:XValidation:rule="has(self.image) && size(self.image) > 0 || !has(self.models) || self.models.all(m, m.basePath.startsWith('/') || m.basePath.startsWith('gs://') || m.basePath.startsWith('s3://') || m.basePath.startsWith('file://'))",message="spec.models: without spec.image each basePath must be a path, gs:// or s3://, since TensorFlow Serving's own image reads no other: put the model there, or set spec.image to an image that reads it"
// +kubebuilder:validation:XValidation:rule="!has(self.env) || !(has(self.secretName) && size(self.secretName) > 0 || has(self.secretFileName) && size(self.secretFileName) > 0) || !self.env.exists(e, e.name == 'GOOGLE_APPLICATION_CREDENTIALS')",message="spec.env must not have GOOGLE_APPLICATION_CREDENTIALS with spec.secretName or spec.secretFileName, which set it: take it out of spec.env, or take these two out"
// +kubebuilder:validation:XValidation:rule="!has(self.env) || !has(self.s3) || !self.env.exists(e, has(self.s3.secretName) && e.name in ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN'] || has(self.s3.region) && e.name in ['AWS_REGION', 'AWS_DEFAULT_REGION'] || has(self.s3.endpoint) && e.name in ['S3_ENDPOINT', 'AWS_ENDPOINT_URL', 'S3_USE_HTTPS'])",message="spec.env must not have what spec.s3 sets: with secretName AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, with region AWS_REGION and AWS_DEFAULT_REGION, with endpoint S3_ENDPOINT, AWS_ENDPOINT_URL and S3_USE_HTTPS: use the field of spec.s3 or the variables, and take the other out"
type TfservSpec struct {
	// grpcPort is the port of the gRPC API, 1 to 65535; the default is TensorFlow Serving's own, 8500.
	// +optional
	// +kubebuilder:default=8500
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="spec.grpcPort must be a port from 1 to 65535, such as 8500"
	GrpcPort *int32 `json:"grpcPort,omitempty"`
	// restPort is the port of the REST API, 1 to 65535; the default is TensorFlow Serving's own, 8501.
	// +optional
	// +kubebuilder:default=8501
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="spec.restPort must be a port from 1 to 65535, such as 8501"
	RestPort *int32 `json:"restPort,omitempty"`
	// replicas is the number of model servers, 0 to 1000; the default is 1. With autoscaling it is left to the
	// autoscaler, but for 0, which stops serving and pauses the autoscaler until it is another number.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:validation:XValidation:rule="self >= 0",message="spec.replicas must not be negative: use 0 to stop serving"
	Replicas *int32 `json:"replicas,omitempty"`
	// configMap is the ConfigMap of the namespace with the model config of TensorFlow Serving; it and models exclude each
	// other.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ConfigMap string `json:"configMap,omitempty"`
	// configFileName is the key of the ConfigMap and the name of the file; the default is models.conf.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^[-._a-zA-Z0-9]+$') && !self.startsWith('..') && self != '.'",message="spec.configFileName must be a key of a ConfigMap, such as models.conf: a file name without '/'"
	ConfigFileName string `json:"configFileName,omitempty"`
	// configFileLocation is the absolute path where the model config is mounted; the default is /var/config.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.startsWith('/') && self != '/' && !self.contains(':') && !self.contains('..')",message="spec.configFileLocation must be an absolute path below / without ':' or '..', such as /var/config"
	ConfigFileLocation string `json:"configFileLocation,omitempty"`
	// secretFileName is the key of the Secret with the credentials for Google Cloud Storage, and the name of the file; it
	// may be a pattern that one key matches, such as *.json.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^[-._a-zA-Z0-9*?]+$') && !self.startsWith('..') && self != '.'",message="spec.secretFileName must be a key of a Secret, such as key.json, or a pattern that one key matches, such as *.json: a file name without '/'"
	SecretFileName string `json:"secretFileName,omitempty"`
	// secretFileLocation is the absolute path where the Secret is mounted; the default is /secret/gcp-credentials.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.startsWith('/') && self != '/' && !self.contains(':') && !self.contains('..')",message="spec.secretFileLocation must be an absolute path below / without ':' or '..', such as /secret/gcp-credentials"
	SecretFileLocation string `json:"secretFileLocation,omitempty"`

	// secretName is the Secret that secretFileName is a key of; the default is tfs-secret. The Secret is mounted if and
	// only if one of the two is set.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`
	// models are the models to serve, instead of a configMap; at most 100.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	Models []Model `json:"models,omitempty"`
	// modelVolume is a PersistentVolumeClaim with models.
	// +optional
	ModelVolume *ModelVolumeSpec `json:"modelVolume,omitempty"`
	// s3 says how models below s3:// are read.
	// +optional
	S3 *S3Spec `json:"s3,omitempty"`
	// serviceType is the type of the Service; the default is NodePort, as the tutorial operator has it. Choose ClusterIP
	// where only the cluster shall reach the models.
	// +optional
	// +kubebuilder:default=NodePort
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	ServiceType corev1.ServiceType `json:"serviceType,omitempty"`
	// image is the image of TensorFlow Serving; the default is the operator's --tfserving-image, and with GPUs
	// --tfserving-gpu-image.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`
	// service holds what the Service has beside its type and ports.
	// +optional
	Service *ServiceSpec `json:"service,omitempty"`
	// strategy says how pods are replaced when their template changes. Without it no pod stops before another serves in its place, but
	// with GPUs or a claim that only one node can mount, where one stops first.
	// +optional
	Strategy *StrategySpec `json:"strategy,omitempty"`
	// configReload says how servers that run get another model config. Restart, the default, replaces the pods. Poll changes the file that
	// they read every configPollSeconds: where only models change, pods are replaced only if servers wait for a model that is corrected. A label moves
	// to another version when every server has that available, and readiness does not ask for a model. Where models are downloaded before the server starts, Restart is
	// used.
	// +optional
	// +kubebuilder:validation:Enum=Restart;Poll
	ConfigReload ConfigReload `json:"configReload,omitempty"`
	// configPollSeconds is how often the servers read the model config with configReload Poll, 1 to 3600; the default is 10. The kubelet
	// brings a change to the pods within about a minute.
	// +optional
	// +kubebuilder:validation:Maximum=3600
	// +kubebuilder:validation:XValidation:rule="self >= 1",message="spec.configPollSeconds must be 1 or more: with 0 a server reads its model config once only, which is configReload Restart"
	ConfigPollSeconds *int32 `json:"configPollSeconds,omitempty"`
	// modelStatusSeconds is how often the servers are asked for the state of their models, 10 seconds to a day; the default is the
	// operator's --tfserving-models-every. Until they have all of them available they are asked at least every five minutes. Where it is
	// set, status.modelsAskedAt is renewed as often.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	ModelStatusSeconds *int32 `json:"modelStatusSeconds,omitempty"`
	// server holds settings of TensorFlow Serving.
	// +optional
	Server *ServerSpec `json:"server,omitempty"`
	// imagePullPolicy is Always, IfNotPresent or Never; the default is IfNotPresent.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// imagePullSecrets are Secrets of the namespace for pulling images.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(s, has(s.name) && size(s.name) > 0)",message="spec.imagePullSecrets needs a name in each item"
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// env are further variables of the environment of the server, at most 64. What a Secret or ConfigMap says is read when a pod starts, and a
	// change of it restarts no pod. The downloader of models does not have them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Env []EnvVar `json:"env,omitempty"`
	// podLabels are further labels of the pods, those of a canary too. No selector of MLKeeper's has them.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.indexOf('/') <= 253 && k.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="spec.podLabels: a key has letters, digits, '-', '_' and '.', after an optional DNS name and '/', such as example.com/team"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k == 'tfsName' || k == 'pod-template-hash' || k.startsWith('keeper.mlkeeper.dev/') || k.startsWith('servapi.dev-state.com/'))",message="spec.podLabels must not have tfsName, pod-template-hash, or keys below keeper.mlkeeper.dev/ and servapi.dev-state.com/, which MLKeeper and Kubernetes set: use another key"
	PodLabels map[string]LabelValue `json:"podLabels,omitempty"`
	// podAnnotations are further annotations of the pods, those of a canary too.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.indexOf('/') <= 253 && k.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="spec.podAnnotations: a key has letters, digits, '-', '_' and '.', after an optional DNS name and '/', such as example.com/team"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k.startsWith('keeper.mlkeeper.dev/') || k.startsWith('servapi.dev-state.com/'))",message="spec.podAnnotations must not have keys below keeper.mlkeeper.dev/ and servapi.dev-state.com/, which MLKeeper sets: use another key"
	PodAnnotations map[string]AnnotationValue `json:"podAnnotations,omitempty"`
	// terminationGracePeriodSeconds is how long a pod lives on after its deletion, 10 seconds to a day. TensorFlow Serving does not end by
	// itself, so that each pod takes all of it: for 10 seconds it still gets requests, and the rest is for those under way. The default is 70,
	// and more where spec.server.restTimeoutMillis is more than a minute: 10 seconds and that, an hour at most.
	// +optional
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:validation:XValidation:rule="self >= 10",message="spec.terminationGracePeriodSeconds must be 10 or more: for 10 seconds a pod that is deleted still gets requests"
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`
	// resources are the compute resources of the tfs-main container, GPUs included (nvidia.com/gpu).
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// scheduling says on which nodes the pods may run.
	// +optional
	Scheduling *keeper.SchedulingSpec `json:"scheduling,omitempty"`
	// priorityClassName is the PriorityClass of the pods.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// runtimeClassName is the RuntimeClass of the pods, such as nvidia.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	RuntimeClassName string `json:"runtimeClassName,omitempty"`
	// serviceAccountName is the ServiceAccount of the pods, such as one with a cloud identity; without it they run as the
	// namespace's default one and get no token.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// podSecurityContext replaces the security context of the pods; the default runs as user 1000, never as root.
	// +optional
	PodSecurityContext *corev1.PodSecurityContext `json:"podSecurityContext,omitempty"`
	// securityContext replaces the security context of the tfs-main container; the default drops all capabilities and
	// forbids privilege escalation.
	// +optional
	SecurityContext *corev1.SecurityContext `json:"securityContext,omitempty"`
	// startupTimeoutSeconds is how long a pod may take to load its initial models before it is restarted, 10 seconds to a
	// day; the default is 600.
	// +optional
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	StartupTimeoutSeconds *int32 `json:"startupTimeoutSeconds,omitempty"`
	// batching lets TensorFlow Serving join requests to batches.
	// +optional
	Batching *BatchingSpec `json:"batching,omitempty"`
	// monitoring serves metrics for Prometheus on the REST port, with a ServiceMonitor where that API is served.
	// +optional
	Monitoring *MonitoringSpec `json:"monitoring,omitempty"`
	// podDisruptionBudget limits how many pods a drain may take away at once.
	// +optional
	PodDisruptionBudget *keeper.DisruptionSpec `json:"podDisruptionBudget,omitempty"`
	// autoscaling makes a HorizontalPodAutoscaler, or a ScaledObject of KEDA, to which replicas are then left. When it is taken out, replicas
	// counts again.
	// +optional
	Autoscaling *AutoscalingSpec `json:"autoscaling,omitempty"`
	// The exposure is part of the spec itself.
	ExposureSpec `json:",inline"`
	// canary has another version of a model on servers of its own, which get a share of the requests by httpRoute and grpcRoute.
	// +optional
	Canary *CanarySpec `json:"canary,omitempty"`
	// deletionPolicy says what happens to the children when the Tfserv is deleted: Delete, the default, deletes them; Orphan
	// leaves all of them.
	// +optional
	DeletionPolicy keeper.DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// BatchingSpec holds the batching parameters of TensorFlow Serving (session_bundle_config.proto).
//
// +kubebuilder:validation:XValidation:rule="!has(self.allowedBatchSizes) || size(self.allowedBatchSizes) == 0 || has(self.maxBatchSize) && self.allowedBatchSizes[size(self.allowedBatchSizes) - 1] == self.maxBatchSize",message="the last of spec.batching.allowedBatchSizes must be spec.batching.maxBatchSize, else TensorFlow Serving refuses to start"
// +kubebuilder:validation:XValidation:rule="!has(self.allowedBatchSizes) || self.allowedBatchSizes.isSorted() && self.allowedBatchSizes.all(x, self.allowedBatchSizes.exists_one(y, x == y))",message="spec.batching.allowedBatchSizes must increase from each to the next, such as [8, 32, 128]"
type BatchingSpec struct {
	// maxBatchSize is the largest number of requests in a batch; TensorFlow Serving's default is 1000.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxBatchSize *int64 `json:"maxBatchSize,omitempty"`
	// batchTimeoutMicros is how many microseconds a batch waits for more requests; TensorFlow Serving's default is 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	BatchTimeoutMicros *int64 `json:"batchTimeoutMicros,omitempty"`
	// maxEnqueuedBatches is how many batches may wait; TensorFlow Serving's default is 10.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxEnqueuedBatches *int64 `json:"maxEnqueuedBatches,omitempty"`
	// numBatchThreads is how many batches are processed at once; TensorFlow Serving's default is the number of CPUs.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	NumBatchThreads *int64 `json:"numBatchThreads,omitempty"`
	// allowedBatchSizes are the sizes that batches are padded to, increasing; the last must be maxBatchSize.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:Minimum=1
	AllowedBatchSizes []int64 `json:"allowedBatchSizes,omitempty"`
	// padVariableLengthInputs pads inputs of different lengths, so that they can share a batch.
	// +optional
	PadVariableLengthInputs bool `json:"padVariableLengthInputs,omitempty"`
}

// MonitoringSpec says how metrics are served and scraped.
type MonitoringSpec struct {
	// path is where the metrics are served; the default is /monitoring/prometheus/metrics.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^/[-._~/a-zA-Z0-9]*$')",message="spec.monitoring.path must begin with '/', such as /monitoring/prometheus/metrics"
	Path string `json:"path,omitempty"`
	// interval is the scrape interval of the ServiceMonitor, a Prometheus duration of at least 1s; the default is 30s.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,2}y)?([0-9]{1,3}w)?([0-9]{1,4}d)?([0-9]{1,5}h)?([0-9]{1,6}m)?([0-9]{1,7}s)?([0-9]{1,9}ms)?)$`
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('[1-9][0-9]*(y|w|d|h|s|m([0-9]|$))|[1-9][0-9]{3,}ms')",message="spec.monitoring.interval must be 1s or more: a shorter one overloads Prometheus"
	Interval string `json:"interval,omitempty"`
	// labels are added to the ServiceMonitor, such as those that a Prometheus selects it by.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Labels map[string]string `json:"labels,omitempty"`
}

// AutoscalingSpec is a HorizontalPodAutoscaler, or with keda a ScaledObject.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",message="spec.autoscaling.minReplicas must not be larger than maxReplicas"
// +kubebuilder:validation:XValidation:rule="!has(self.metrics) || size(self.metrics) == 0 || !has(self.targetCPUUtilizationPercentage)",message="spec.autoscaling.metrics and targetCPUUtilizationPercentage exclude each other: add a metric of the resource cpu to metrics"
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || self.minReplicas > 0 || has(self.keda)",message="spec.autoscaling.minReplicas must be 1 or more: only spec.autoscaling.keda scales to 0"
// +kubebuilder:validation:XValidation:rule="!has(self.keda) || !has(self.metrics) && !has(self.targetCPUUtilizationPercentage)",message="spec.autoscaling.keda has triggers in place of metrics and targetCPUUtilizationPercentage: declare one of them, such as a trigger of type cpu"
// +kubebuilder:validation:XValidation:rule="!has(self.keda) || !has(self.minReplicas) || self.minReplicas > 0 || self.keda.triggers.exists(t, t.type != 'cpu' && t.type != 'memory')",message="spec.autoscaling.minReplicas 0 needs a trigger of another type than cpu and memory: without a pod nobody measures these, and KEDA would never start one"
type AutoscalingSpec struct {
	// minReplicas is the least number of pods; the default is 1. With keda it may be 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	MinReplicas *int32 `json:"minReplicas,omitempty"`
	// maxReplicas is the largest number of pods.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxReplicas int32 `json:"maxReplicas"`
	// targetCPUUtilizationPercentage is the average share of the requested CPU that is aimed at; the default is 80. It
	// needs a request for CPU in resources.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	TargetCPUUtilizationPercentage *int32 `json:"targetCPUUtilizationPercentage,omitempty"`
	// metrics are those of a HorizontalPodAutoscaler in autoscaling/v2, in place of the utilization of the CPU.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Metrics []autoscalingv2.MetricSpec `json:"metrics,omitempty"`
	// behavior says how fast pods come and go, as in autoscaling/v2.
	// +optional
	Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior,omitempty"`
	// keda makes a ScaledObject of KEDA in place of the HorizontalPodAutoscaler, where its API is served.
	// +optional
	KEDA *KEDASpec `json:"keda,omitempty"`
}

// KEDASpec is what a ScaledObject has beside its target and the numbers of pods (keda.sh/v1alpha1).
//
// +kubebuilder:validation:XValidation:rule="!has(self.fallback) || self.triggers.exists(t, t.type != 'cpu' && t.type != 'memory')",message="spec.autoscaling.keda.fallback needs a trigger of another type than cpu and memory, which KEDA has no fallback for"
// +kubebuilder:validation:XValidation:rule="self.triggers.all(t, !has(t.name) || self.triggers.exists_one(u, has(u.name) && u.name == t.name))",message="spec.autoscaling.keda.triggers must not have a name twice"
type KEDASpec struct {
	// triggers say when there are how many pods.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Triggers []KEDATrigger `json:"triggers"`
	// pollingInterval is how often the triggers are asked while there is no pod, and with useCachedMetrics, in seconds; KEDA's default is 30.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	PollingInterval *int32 `json:"pollingInterval,omitempty"`
	// cooldownPeriod is how long no trigger is active before there is no pod, where minReplicas is 0, in seconds; KEDA's default is 300.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=604800
	CooldownPeriod *int32 `json:"cooldownPeriod,omitempty"`
	// initialCooldownPeriod is the same after the ScaledObject was made, in seconds; KEDA's default is 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=604800
	InitialCooldownPeriod *int32 `json:"initialCooldownPeriod,omitempty"`
	// fallback says how many pods there are while a trigger cannot be asked.
	// +optional
	Fallback *KEDAFallback `json:"fallback,omitempty"`
}

// KEDATrigger is a trigger of a ScaledObject. KEDA asks it with credentials of this namespace alone: a ClusterTriggerAuthentication, and the
// identity of KEDA itself, are those of an administrator, which a Tfserv does not lend.
//
// +kubebuilder:validation:XValidation:rule="!('identityOwner' in self.metadata) || self.metadata['identityOwner'] == 'pod'",message="spec.autoscaling.keda.triggers: the metadata identityOwner must be pod, since KEDA takes its own identity for any other word: name a TriggerAuthentication of the namespace in authenticationRef"
// +kubebuilder:validation:XValidation:rule="!('credentialsFromEnvFile' in self.metadata)",message="spec.autoscaling.keda.triggers: the metadata credentialsFromEnvFile must not be given, since it names a file of KEDA itself: use credentialsFromEnv, or name a TriggerAuthentication of the namespace in authenticationRef"
// +kubebuilder:validation:XValidation:rule="!has(self.useCachedMetrics) || !self.useCachedMetrics || !(self.type in ['cpu', 'memory', 'cron'])",message="spec.autoscaling.keda.triggers: useCachedMetrics is not for triggers of type cpu, memory and cron"
type KEDATrigger struct {
	// type is the scaler, such as prometheus, cron or kafka.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Type string `json:"type"`
	// name tells triggers apart.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// metadata are the parameters of the scaler.
	// +required
	// +kubebuilder:validation:MaxProperties=64
	Metadata map[string]KEDAValue `json:"metadata"`
	// metricType says how the metric is compared; the default is AverageValue, and Utilization for cpu and memory.
	// +optional
	// +kubebuilder:validation:Enum=AverageValue;Value;Utilization
	MetricType autoscalingv2.MetricTargetType `json:"metricType,omitempty"`
	// useCachedMetrics has the metric asked for once per polling interval, in place of each time that pods are counted.
	// +optional
	UseCachedMetrics bool `json:"useCachedMetrics,omitempty"`
	// authenticationRef is the TriggerAuthentication of the namespace with the credentials of the scaler.
	// +optional
	AuthenticationRef *KEDAAuthenticationRef `json:"authenticationRef,omitempty"`
}

// KEDAValue is the value of a parameter of a scaler.
//
// +kubebuilder:validation:MaxLength=4096
type KEDAValue string

// KEDAAuthenticationRef names a TriggerAuthentication.
type KEDAAuthenticationRef struct {
	// name is that of the TriggerAuthentication.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// KEDAFallback says how many pods there are while a trigger cannot be asked.
type KEDAFallback struct {
	// failureThreshold is how many times in a row a trigger fails before that.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	FailureThreshold int32 `json:"failureThreshold"`
	// replicas is the number of pods.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Replicas int32 `json:"replicas"`
	// behavior says what else may count, as in keda.sh/v1alpha1; the default is static.
	// +optional
	// +kubebuilder:validation:Enum=static;currentReplicas;currentReplicasIfHigher;currentReplicasIfLower
	Behavior string `json:"behavior,omitempty"`
}
