package v1alpha1

import corev1 "k8s.io/api/core/v1"

// Model is one model of TensorFlow Serving's model config (model_server_config.proto).
//
// +kubebuilder:validation:XValidation:rule="!has(self.versionLabels) || size(self.versionLabels) == 0 || !has(self.versionPolicy) || !has(self.versionPolicy.specific) || self.versionLabels.all(l, self.versionLabels[l] in self.versionPolicy.specific.versions)",message="every version of versionLabels must be one of versionPolicy.specific.versions: a label can only name a version that is served"
type Model struct {
	// name is the name of the model in the API of TensorFlow Serving.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="a model's name may have letters, digits, '-', '_' and '.'"
	Name string `json:"name"`
	// basePath is the folder above the version folders: an absolute path, or a URI such as gs://bucket/model.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/') || self.matches('^[a-z][a-z0-9.]*://.+')",message="basePath must be an absolute path such as /models/resnet, or a URI such as gs://bucket/resnet"
	BasePath string `json:"basePath"`
	// versionPolicy says which versions are served; the default is the latest one.
	// +optional
	VersionPolicy *VersionPolicy `json:"versionPolicy,omitempty"`
	// versionLabels name versions, such as stable and canary.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	VersionLabels map[string]int64 `json:"versionLabels,omitempty"`
}

// VersionPolicy says which versions of a model are served (file_system_storage_path_source.proto).
//
// +kubebuilder:validation:XValidation:rule="(has(self.latest) ? 1 : 0) + (has(self.all) ? 1 : 0) + (has(self.specific) ? 1 : 0) == 1",message="versionPolicy must be exactly one of latest, all and specific"
type VersionPolicy struct {
	// latest serves the versions with the highest numbers.
	// +optional
	Latest *LatestVersions `json:"latest,omitempty"`
	// all serves every version.
	// +optional
	All *AllVersions `json:"all,omitempty"`
	// specific serves the versions that it lists.
	// +optional
	Specific *SpecificVersions `json:"specific,omitempty"`
}

// LatestVersions serves the versions with the highest numbers.
type LatestVersions struct {
	// numVersions is how many; the default is 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	NumVersions int64 `json:"numVersions,omitempty"`
}

// AllVersions serves every version.
type AllVersions struct{}

// SpecificVersions serves the versions that it lists.
type SpecificVersions struct {
	// versions are the version numbers.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:Minimum=0
	Versions []int64 `json:"versions"`
}

// ModelVolumeSpec mounts a PersistentVolumeClaim with models, read-only.
type ModelVolumeSpec struct {
	// claimName is the PersistentVolumeClaim of the namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName"`
	// mountPath is where it is mounted; the default is /models.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.startsWith('/') && self != '/' && !self.contains(':') && !self.contains('..')",message="spec.modelVolume.mountPath must be an absolute path below / without ':' or '..', such as /models"
	MountPath string `json:"mountPath,omitempty"`
	// subPath is the folder of the volume that is mounted; the default is all of it.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.contains('..')",message="spec.modelVolume.subPath must be a relative path without '..'"
	SubPath string `json:"subPath,omitempty"`
}

// S3Spec says how models below s3:// are read. TensorFlow Serving has no S3 built in since 2.7, so that they are
// downloaded before the server starts, or the image says that it reads them itself.
type S3Spec struct {
	// secretName is a Secret of the namespace with the keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and
	// AWS_SESSION_TOKEN where needed; without it the pods use the identity of their ServiceAccount.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`
	// endpoint is the host and port of a store other than AWS, such as minio.storage:9000.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Endpoint string `json:"endpoint,omitempty"`
	// region is the region of the bucket.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Region string `json:"region,omitempty"`
	// insecure talks HTTP to the endpoint, not HTTPS.
	// +optional
	Insecure bool `json:"insecure,omitempty"`
	// imageReadsS3 says that spec.image reads s3:// itself, so that nothing is downloaded.
	// +optional
	ImageReadsS3 bool `json:"imageReadsS3,omitempty"`
	// downloader downloads the models before the server starts.
	// +optional
	Downloader *DownloaderSpec `json:"downloader,omitempty"`
}

// DownloaderSpec is the init container that downloads a model, one for each. It is called with two arguments, the URI of
// the model and the folder to put it into, as KServe's storage initializer is.
type DownloaderSpec struct {
	// image is the image, such as that of KServe's storage initializer.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image"`
	// resources are the compute resources of the init container.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
}
