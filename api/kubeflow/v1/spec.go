package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// KfDefSpec is what kfctl v1.2 reads of a KfDef, field by field, and what MLKeeper adds. Every field is optional, as it
// was there.
//
// +kubebuilder:validation:XValidation:rule="!has(self.interval) || duration(self.interval) >= duration('30s')",message="spec.interval is shorter than 30s: forges refuse who asks that often; write 30s or more"
type KfDefSpec struct {
	// rendering is how the applications are rendered: Kfctl as kfctl v1.2 rendered them, from a base, overlays and parameters, into the
	// namespace of the KfDef; Kustomize as kustomize build renders every path, with all of its repository. Where it is empty it is
	// detected once and kept in status.rendering.
	// +optional
	Rendering Rendering `json:"rendering,omitempty"`
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

	// serviceAccountName is a ServiceAccount of the KfDef's namespace. What the applications hold is written with its rights.
	// Without it --default-service-account of the manager is used, and where that is not set either, the KfDef is Stalled
	// unless the administrator trusts all authors (--allow-operator-privileges=kubeflow).
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// suspend stops everything but a deletion: nothing is fetched, repaired or pruned.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// interval is how often repositories that may move are asked for again, such as 1h. Without it they are asked for when
	// the spec changes, when the manager restarts, and when the annotation keeper.mlkeeper.dev/reconcile-at changes. What is
	// pinned by a digest or a commit is never asked for twice.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	Interval *metav1.Duration `json:"interval,omitempty"`
	// dependsOn names other KfDefs that must be Ready before anything of this one is created. What exists is updated all the same. A KfDef
	// that depends on itself by way of others is Stalled.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +listMapKey=namespace
	// +kubebuilder:validation:MaxItems=16
	DependsOn []Dependency `json:"dependsOn,omitempty"`
	// deletionPolicy says what becomes of the objects when the KfDef is deleted: Delete, the default, deletes them; Orphan
	// leaves all of them. With both, PersistentVolumeClaims stay, and so do the namespace of the KfDef, other Namespaces that
	// hold anything, and CustomResourceDefinitions of which there are custom resources.
	// +optional
	DeletionPolicy keeper.DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// Dependency is a KfDef that another one depends on.
type Dependency struct {
	// name is that of the KfDef.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// namespace is the namespace of the KfDef; empty, the default, for that of this one. In another namespace it is read with the rights of the
	// ServiceAccount that this one acts as, which needs the right get on it: else nothing of this one is created.
	// +optional
	// +kubebuilder:default=""
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	Namespace string `json:"namespace,omitempty"`
}

// Rendering is how the applications of a KfDef are rendered.
//
// +kubebuilder:validation:Enum=Kfctl;Kustomize
type Rendering string

// Application is one application of a Kubeflow.
//
// +kubebuilder:validation:XValidation:rule="!has(self.timeout) || duration(self.timeout) > duration('0s')",message="timeout of an application is not positive; write one such as 5m"
type Application struct {
	// name names the application. With the rendering Kfctl, the name kubeflow-apps makes the whole KfDef one of stacks (kfctl v1.1),
	// in which the overlays and parameters of all applications have no effect.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// kustomizeConfig says where the application's manifests are and how they are put together.
	// +optional
	KustomizeConfig *KustomizeConfig `json:"kustomizeConfig,omitempty"`

	// namespace is where those objects of the application are made that name no namespace; the namespace of the KfDef by default.
	// Nothing that names a namespace is moved.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`
	// dependsOn names applications whose objects must be healthy before those of this one are made. Updates are never held
	// back. Without it an application waits for nothing but Namespaces, definitions and servers of webhooks.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	DependsOn []string `json:"dependsOn,omitempty"`
	// wait holds back all later applications until this one is healthy.
	// +optional
	Wait bool `json:"wait,omitempty"`
	// timeout is how long dependsOn of this application, and wait of it, hold back; 5m by default. What is held back then
	// goes on with a warning.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// prune false keeps the objects of this application when they leave it, and when the KfDef is deleted.
	// +optional
	Prune              *bool `json:"prune,omitempty"`
	keeper.Observation `json:",inline"`

	// images replaces images of the application, as kustomize does.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Images []Image `json:"images,omitempty"`

	Adjustments `json:",inline"`
}

// Image replaces an image, as the images of a kustomization do.
//
// +kubebuilder:validation:XValidation:rule="has(self.newName) || has(self.newTag) || has(self.digest)",message="images[] changes nothing: give newName, newTag or digest"
// +kubebuilder:validation:XValidation:rule="!(has(self.newTag) && has(self.digest))",message="images[] has both newTag and digest: leave one of them out"
type Image struct {
	// name is the image without its tag.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Name string `json:"name"`
	// newName replaces the name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	NewName string `json:"newName,omitempty"`
	// newTag replaces the tag.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	NewTag string `json:"newTag,omitempty"`
	// digest replaces the tag by a digest, such as sha256:...
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Digest string `json:"digest,omitempty"`
}

// KustomizeConfig says how an application is rendered.
type KustomizeConfig struct {
	// repoRef is the folder with the manifests.
	// +optional
	RepoRef *RepoRef `json:"repoRef,omitempty"`
	// overlays are merged onto the base in this order, with the rendering Kfctl.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	Overlays []string `json:"overlays,omitempty"`
	// parameters replace the lines of the same names in params.env, with the rendering Kfctl.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Parameters []NameValue `json:"parameters,omitempty"`
	// components are folders of the repository with Components that kustomize applies to the application. They need the rendering
	// Kustomize.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=1024
	Components []string `json:"components,omitempty"`
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
	// #sha256:<hex> at its end, it must have that digest. git::https://... and oci://... name a git repository and an
	// artifact; configmap:NAME/KEY and secret:NAME/KEY an archive in an object of the KfDef's namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	URI string `json:"uri,omitempty"`
	// secretName is a Secret of the KfDef's namespace with what the server of the repository asks for: username and
	// password, or token; ca.crt; proxy; and for git over SSH identity and known_hosts.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`
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
