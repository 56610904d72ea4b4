package v1alpha1

// ServerSpec holds settings of TensorFlow Serving that have no other field. A setting that is not given is left to the server.
type ServerSpec struct {
	// gpuMemoryPercent is the share of a GPU's memory that the server takes, 1 to 100; without it nearly all
	// (--per_process_gpu_memory_fraction).
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	GPUMemoryPercent *int32 `json:"gpuMemoryPercent,omitempty"`
	// intraOpThreads is how many threads run one operation (--tensorflow_intra_op_parallelism).
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	IntraOpThreads *int32 `json:"intraOpThreads,omitempty"`
	// interOpThreads is how many operations run at once (--tensorflow_inter_op_parallelism).
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	InterOpThreads *int32 `json:"interOpThreads,omitempty"`
	// restThreads is how many threads serve the REST API; TensorFlow Serving's default is four for each CPU (--rest_api_num_threads).
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	RESTThreads *int32 `json:"restThreads,omitempty"`
	// restTimeoutMillis is how many milliseconds a request to the REST API may take; TensorFlow Serving's default is 30000
	// (--rest_api_timeout_in_ms).
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400000
	RESTTimeoutMillis *int32 `json:"restTimeoutMillis,omitempty"`
	// grpcThreads is how many threads serve the gRPC API at most; TensorFlow Serving's default is four for each CPU (--grpc_max_threads).
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	GRPCThreads *int32 `json:"grpcThreads,omitempty"`
	// grpcMaxConnectionAgeSeconds is after how many seconds the server ends a gRPC connection, so that clients spread over new pods
	// (--grpc_channel_arguments=grpc.max_connection_age_ms).
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	GRPCMaxConnectionAgeSeconds *int32 `json:"grpcMaxConnectionAgeSeconds,omitempty"`
	// loadThreads is how many models are loaded at once; with 0, TensorFlow Serving's default, a model that fails delays the others
	// (--num_load_threads).
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=256
	LoadThreads *int32 `json:"loadThreads,omitempty"`
	// maxLoadRetries is how often a model that does not load is tried again; TensorFlow Serving's default is 5 (--max_num_load_retries).
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	MaxLoadRetries *int32 `json:"maxLoadRetries,omitempty"`
	// loadRetrySeconds is how many seconds are between two of these tries; TensorFlow Serving's default is 60
	// (--load_retry_interval_micros).
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	LoadRetrySeconds *int32 `json:"loadRetrySeconds,omitempty"`
	// versionPollSeconds is how often the server looks for other versions of a model; TensorFlow Serving's default is 1. 0, with which it
	// looks once and would not end a reload, is refused (--file_system_poll_wait_seconds).
	// +optional
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:validation:XValidation:rule="self >= 1",message="spec.server.versionPollSeconds must be 1 or more: with 0 the server looks for versions once only"
	VersionPollSeconds *int32 `json:"versionPollSeconds,omitempty"`
	// warmup says whether a model answers the requests in its assets.extra/tf_serving_warmup_requests before it is available;
	// TensorFlow Serving's default is true (--enable_model_warmup).
	// +optional
	Warmup *bool `json:"warmup,omitempty"`
	// warmupIterations is how often each of these requests is answered (--num_request_iterations_for_warmup).
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	WarmupIterations *int32 `json:"warmupIterations,omitempty"`
	// profiler says whether the gRPC port serves TensorFlow's profiler to everybody; TensorFlow Serving's default is true
	// (--enable_profiler).
	// +optional
	Profiler *bool `json:"profiler,omitempty"`
	// perModelBatching has each model batched by the batching_params.pbtxt in its folder (--enable_per_model_batching_parameters). It
	// needs spec.batching.
	// +optional
	PerModelBatching bool `json:"perModelBatching,omitempty"`
	// tls has the gRPC API served with TLS. The REST API stays plain, since TensorFlow Serving has no TLS for it (--ssl_config_file).
	// +optional
	TLS *ServerTLSSpec `json:"tls,omitempty"`
	// extraArgs are further arguments of TensorFlow Serving, which nobody checks; status.warnings names them. Those that have a field
	// are refused.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.all(a, a.matches('^--[a-z][a-z0-9_]*(=.*)?$'))",message="spec.server.extraArgs must be arguments such as --flush_filesystem_caches=false"
	// +kubebuilder:validation:XValidation:rule="!self.exists(a, a.matches('^--(port|rest_api_port|rest_api_num_threads|rest_api_timeout_in_ms|grpc_max_threads|grpc_channel_arguments|grpc_socket_path|model_name|model_base_path|model_config_file|model_config_file_poll_wait_seconds|allow_version_labels_for_unavailable_models|enable_grpc_healthcheck_service|enable_batching|batching_parameters_file|enable_per_model_batching_parameters|monitoring_config_file|ssl_config_file|file_system_poll_wait_seconds|per_process_gpu_memory_fraction|num_load_threads|max_num_load_retries|load_retry_interval_micros|tensorflow_intra_op_parallelism|tensorflow_inter_op_parallelism|tensorflow_session_parallelism|enable_model_warmup|num_request_iterations_for_warmup|enable_profiler)(=|$)'))",message="spec.server.extraArgs must not have an argument that MLKeeper gives, or that a field of the spec has, such as --port, --model_config_file or --rest_api_num_threads: use the field"
	ExtraArgs []string `json:"extraArgs,omitempty"`
}

// ServerTLSSpec is the TLS of the gRPC API.
type ServerTLSSpec struct {
	// secretName is a Secret of the namespace with a SSLConfig of TensorFlow Serving as text proto, whose server_key, server_cert and
	// custom_ca hold the PEM itself; or, where no key is named, one of the type kubernetes.io/tls, of which the SSLConfig is made.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`
	// key is the key of the Secret; the default is ssl.conf.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^[-._a-zA-Z0-9]+$') && !self.startsWith('..') && self != '.'",message="spec.server.tls.key must be a key of a Secret, such as ssl.conf"
	Key string `json:"key,omitempty"`
}
