package v1

import "k8s.io/apimachinery/pkg/runtime"

// KfDefSpec is what kfctl v1.2 reads of a KfDef, field by field. Every field is optional, as it was there.
type KfDefSpec struct {
	// applications are rendered and applied in this order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=200
	Applications []Application `json:"applications,omitempty"`
	// repos are the archives of manifests that the applications are in. One must be named manifests.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Repos []Repo `json:"repos,omitempty"`
	// plugins are those of the original for clouds. They are accepted and not run; status.warnings says so.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Plugins []Plugin `json:"plugins,omitempty"`
	// secrets are those of the plugins of the original. They are accepted and not read.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Secrets []Secret `json:"secrets,omitempty"`
	// version is informational: nothing is rendered from it.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`
}

// Application is one application of a Kubeflow.
type Application struct {
	// name names the application. The name kubeflow-apps makes the whole KfDef one of stacks (kfctl v1.1), in which the
	// overlays and parameters of all applications have no effect.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// kustomizeConfig says where the application's manifests are and how they are put together.
	// +optional
	KustomizeConfig *KustomizeConfig `json:"kustomizeConfig,omitempty"`
}

// KustomizeConfig says how an application is rendered.
type KustomizeConfig struct {
	// repoRef is the folder with the manifests.
	// +optional
	RepoRef *RepoRef `json:"repoRef,omitempty"`
	// overlays are merged onto the base in this order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	Overlays []string `json:"overlays,omitempty"`
	// parameters replace the lines of the same names in params.env.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Parameters []NameValue `json:"parameters,omitempty"`
}

// RepoRef is a folder of a repository.
type RepoRef struct {
	// name is that of one of spec.repos.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// path is the folder within it.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path,omitempty"`
}

// NameValue is a parameter.
type NameValue struct {
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Value string `json:"value,omitempty"`
}

// Repo is an archive of manifests.
type Repo struct {
	// name is what repoRef.name refers to.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// uri is where the archive is: an https address of a tar.gz, such as a GitHub archive or tarball link. With
	// #sha256:<hex> at its end, it must have that digest.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	URI string `json:"uri,omitempty"`
}

// Plugin is a plugin of the original.
type Plugin struct {
	// apiVersion is that of the plugin.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	APIVersion string `json:"apiVersion,omitempty"`
	// kind is that of the plugin, such as KfGcpPlugin.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Kind string `json:"kind,omitempty"`
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Metadata *runtime.RawExtension `json:"metadata,omitempty"`
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec *runtime.RawExtension `json:"spec,omitempty"`
}

// Secret is a secret of the original's plugins.
type Secret struct {
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// +optional
	SecretSource *SecretSource `json:"secretSource,omitempty"`
}

// SecretSource says where the original took a secret from.
type SecretSource struct {
	// +optional
	LiteralSource *LiteralSource `json:"literalSource,omitempty"`
	// envSource named an environment variable of the operator's process; MLKeeper never reads it.
	// +optional
	EnvSource *EnvSource `json:"envSource,omitempty"`
}

// LiteralSource is a secret in plain text.
type LiteralSource struct {
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Value string `json:"value,omitempty"`
}

// EnvSource is an environment variable.
type EnvSource struct {
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}
