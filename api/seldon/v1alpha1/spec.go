package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// SeldonOperatorSpec is what the meta-operator read, and what MLKeeper adds. Every field is optional: an empty spec is Seldon
// Core and Seldon Deploy.
type SeldonOperatorSpec struct {
	// enable switches features on.
	// +optional
	Enable Enable `json:"enable,omitempty"`
	// core is Seldon Core; the chart seldon-core-operator.
	// +optional
	Core Component `json:"core,omitempty"`
	// enterprise is Seldon Deploy; the chart seldon-deploy.
	// +optional
	Enterprise Component `json:"enterprise,omitempty"`
	// analytics is Seldon Core Analytics; the chart seldon-core-analytics.
	// +optional
	Analytics Component `json:"analytics,omitempty"`
	// catalogue is the trial instance of PostgreSQL; the chart postgresql.
	// +optional
	Catalogue Component `json:"catalogue,omitempty"`
	// payloadstore says where payloads are kept.
	// +optional
	PayloadStore PayloadStore `json:"payloadstore,omitempty"`
	// routing says through which Gateway of Istio the stack is reached.
	// +optional
	Routing Routing `json:"routing,omitempty"`
	// detectors says how the answers of outlier and drift detectors find the request logger.
	// +optional
	Detectors Detectors `json:"detectors,omitempty"`

	// serviceAccountName is a ServiceAccount of the SeldonOperator's namespace. What the charts hold is written with its
	// rights. Without it --default-service-account of the manager is used, and where that is not set either, the
	// SeldonOperator is Stalled unless the administrator trusts all authors (--allow-operator-privileges=seldon).
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// suspend stops everything but a deletion: nothing is fetched, repaired or pruned.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// deletionPolicy says what becomes of the objects when the SeldonOperator is deleted: Delete, the default, deletes them;
	// Orphan leaves all of them. With both, PersistentVolumeClaims stay.
	// +optional
	DeletionPolicy keeper.DeletionPolicy `json:"deletionPolicy,omitempty"`
	// deleteCRDs deletes the CustomResourceDefinitions of the charts with the SeldonOperator, where there is no custom
	// resource of them any more. Without it they stay, so that no SeldonDeployment is lost.
	// +optional
	DeleteCRDs bool `json:"deleteCRDs,omitempty"`
}

// Enable are the switches of the meta-operator.
type Enable struct {
	// analytics installs Seldon Core Analytics: Prometheus and what it needs.
	// +optional
	Analytics bool `json:"analytics,omitempty"`
	// catalogue installs a trial instance of PostgreSQL for the metadata of models.
	// +optional
	Catalogue bool `json:"catalogue,omitempty"`
	// payloadstore keeps payloads in Elasticsearch: a trial instance of OpenSearch, or one of the user's.
	// +optional
	PayloadStore bool `json:"payloadstore,omitempty"`
	// routing makes the stack reachable through Istio, which has to be installed.
	// +optional
	Routing bool `json:"routing,omitempty"`
	// detectors installs the request logger behind a Broker of Knative Eventing. It needs routing, and Knative.
	// +optional
	Detectors bool `json:"detectors,omitempty"`
}

// Component is one chart of the stack.
type Component struct {
	// values are Helm values of the chart. They win over what MLKeeper sets.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Values *runtime.RawExtension `json:"values,omitempty"`
	// valuesFrom are Helm values in objects of the SeldonOperator's namespace. Later ones win over earlier ones, and values
	// over all of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	ValuesFrom []ValuesReference `json:"valuesFrom,omitempty"`
	// chart is where the chart comes from; without it the one that the manager is set up with.
	// +optional
	Chart *Chart `json:"chart,omitempty"`
	// crds says what becomes of the CustomResourceDefinitions in the folder crds of the chart. CreateReplace, the default, keeps them as the
	// chart has them; an older version of the chart than before replaces none, since the fields that it does not know would be lost. Create
	// creates those that are absent, and leaves the others as they are. Skip leaves all of them to somebody else. Those that exist stay with
	// each. Definitions among the templates of a chart are objects like all others.
	// +optional
	CRDs CRDPolicy `json:"crds,omitempty"`
	// patches are applied to what the templates of the chart render, in this order, hooks included, and not to the definitions in its folder
	// crds. Other patches are another revision, as other values are.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Patches []keeper.Patch `json:"patches,omitempty"`
	// commonMetadata is set after the patches on the same objects, in place of what they have under the same names. Another one is another
	// revision.
	// +optional
	CommonMetadata *keeper.CommonMetadata `json:"commonMetadata,omitempty"`
	// suspend leaves the objects of the component as they are.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// deletionPolicy says what becomes of the objects of the component when it is switched off or the SeldonOperator is
	// deleted.
	// +optional
	DeletionPolicy keeper.DeletionPolicy `json:"deletionPolicy,omitempty"`
	// upgrade says what becomes of an upgrade of the component that fails.
	// +optional
	Upgrade Upgrade `json:"upgrade,omitempty"`
	// recreateStatefulSets allows StatefulSets of the component to be deleted and made again where an upgrade changes what
	// cannot be changed. Their PersistentVolumeClaims stay. Without it the SeldonOperator is Stalled then.
	// +optional
	RecreateStatefulSets bool `json:"recreateStatefulSets,omitempty"`

	keeper.Observation `json:",inline"`
}

// Upgrade says what becomes of an upgrade that fails.
type Upgrade struct {
	// onFailure is Keep by default: what a revision that fails has changed stays, and what it has not reached yet is as before. With Rollback
	// the manifests of the last revision that was ready are applied again, as by helm rollback, and the SeldonOperator is Stalled with reason
	// RolledBack until the values or the chart change, or the annotation keeper.mlkeeper.dev/reconcile-at. For that they are kept in the
	// Secret NAME-revisions, with the Secrets among them. CustomResourceDefinitions, data and what hooks have done are not rolled back.
	// +optional
	OnFailure FailurePolicy `json:"onFailure,omitempty"`
	// timeoutSeconds is how long a revision may take to be ready before it counts as failed, with Rollback; 300 by default, as for Helm. Time
	// in which it is suspended does not count. A hook that has failed, and an object that the API server refuses for good, fail it at once.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
}

// FailurePolicy says what becomes of a revision that fails.
//
// +kubebuilder:validation:Enum=Keep;Rollback
type FailurePolicy string

// The policies of failures.
const (
	// FailureKeep leaves what it has changed.
	FailureKeep FailurePolicy = "Keep"
	// FailureRollback applies the last revision again that was ready.
	FailureRollback FailurePolicy = "Rollback"
)

// CRDPolicy says what becomes of the CustomResourceDefinitions in the folder crds of a chart; the words are those of Flux.
//
// +kubebuilder:validation:Enum=Create;CreateReplace;Skip
type CRDPolicy string

// The policies.
const (
	// CreateDefinitions creates those that are absent, and leaves the others as they are, as Helm does.
	CreateDefinitions CRDPolicy = "Create"
	// ReplaceDefinitions keeps them as the newest version of the chart has them that was rendered.
	ReplaceDefinitions CRDPolicy = "CreateReplace"
	// SkipDefinitions leaves them to somebody else.
	SkipDefinitions CRDPolicy = "Skip"
)

// ValuesReference names values in an object.
type ValuesReference struct {
	// kind is ConfigMap or Secret.
	// +required
	// +kubebuilder:validation:Enum=ConfigMap;Secret
	Kind string `json:"kind"`
	// name is that of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// valuesKey is the key that holds the values as YAML; values.yaml by default.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ValuesKey string `json:"valuesKey,omitempty"`
	// targetPath is where the text of the key goes, such as auth.password, servers[0].port or nodeSelector.example\.com/pool, in place of
	// values as YAML. The text is read as helm --set reads it: true, false, null and whole numbers are no strings, a comma begins the next
	// value, and {a,b} is a list; in quotes it is a string, as with helm --set-string.
	// +optional
	// +kubebuilder:validation:MaxLength=250
	// +kubebuilder:validation:Pattern=`^(([a-zA-Z0-9_\-/]|\\[.,=\[\]])+(\[[0-9]{1,5}\])*(\.([a-zA-Z0-9_\-/]|\\[.,=\[\]])+(\[[0-9]{1,5}\])*)*)?$`
	TargetPath string `json:"targetPath,omitempty"`
	// literal takes the text of the key at targetPath as it is, as helm --set-literal does: a string, whatever it holds, such as a password
	// with a comma. False by default.
	// +optional
	Literal bool `json:"literal,omitempty"`
	// optional says that nothing is waited for where the object or the key is absent.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// Chart is where a chart comes from. What is left out is taken from what the manager is set up with.
//
// +kubebuilder:validation:XValidation:rule="!has(self.verify) || !has(self.repository) || self.verify.provider == (self.repository.startsWith('oci://') ? 'cosign' : 'pgp')",messageExpression="'chart.verify.provider (' + self.verify.provider + ') does not fit the repository: set it to cosign for an oci:// address, and to pgp for any other'"
// +kubebuilder:validation:XValidation:rule="!has(self.verify) || !has(self.repository) || !(self.repository.startsWith('configmap:') || self.repository.startsWith('secret:'))",message="chart.verify cannot be set with an archive in a ConfigMap or Secret, which has no signature: remove it, or set repository to where the chart is published"
type Chart struct {
	// repository is an https address of a chart repository, the oci:// address that charts are under, or
	// configmap:NAME/KEY or secret:NAME/KEY of an archive in an object of the SeldonOperator's namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Repository string `json:"repository,omitempty"`
	// name is that of the chart.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// version is the version of the chart: one, or a range such as 1.x or >=1.2 <2, as Helm reads it. Of a range the newest one is taken, and
	// the repository is asked for a newer one every ten minutes.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`
	// digest is the sha256 of the archive, as hexadecimal digits or with sha256: before them.
	// +optional
	// +kubebuilder:validation:Pattern=`^((sha256:)?[a-f0-9]{64})?$`
	// +kubebuilder:validation:MaxLength=71
	Digest string `json:"digest,omitempty"`
	// secretName is a Secret of the SeldonOperator's namespace with what the server of the repository asks for: username and
	// password, or token; ca.crt; proxy.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`
	// verify asks for a signature of the chart by a key that the user names. A chart without one is not rendered: the SeldonOperator is
	// Stalled with reason SignatureMissing or SignatureInvalid, and what was rendered before stays declared. The chart must also have the
	// name and a version that are asked for, so that no other signed chart takes its place.
	// +optional
	Verify *Verification `json:"verify,omitempty"`
}

// Verification asks for a signature of a chart; the words are those of Flux.
//
// +kubebuilder:validation:XValidation:rule="has(self.secretRef) != has(self.configMapRef)",message="chart.verify needs the public keys: set either secretRef or configMapRef"
type Verification struct {
	// provider is how the chart is signed. It is cosign for a chart of an oci:// repository, signed by cosign sign --key: the public keys
	// are the entries of the Secret or ConfigMap whose names end in .pub, in PEM. It is pgp for a chart of a repository with an index, signed by helm
	// package --sign, with the file .prov beside the archive: the keys are the entries whose names end in .asc, armored, or in .gpg.
	// +required
	// +kubebuilder:validation:Enum=cosign;pgp
	Provider string `json:"provider"`
	// secretRef names a Secret of the SeldonOperator's namespace with the public keys, of which one must have signed.
	// +optional
	SecretRef *KeysReference `json:"secretRef,omitempty"`
	// configMapRef names a ConfigMap with them in place of a Secret.
	// +optional
	ConfigMapRef *KeysReference `json:"configMapRef,omitempty"`
}

// KeysReference names an object with public keys.
type KeysReference struct {
	// name is that of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// PayloadStore says where payloads are kept.
type PayloadStore struct {
	Component `json:",inline"`
	// internal_elastic is the trial instance.
	// +optional
	InternalElastic InternalElastic `json:"internal_elastic,omitempty"`
}

// InternalElastic is the trial instance of OpenSearch.
type InternalElastic struct {
	// use_internal installs it; true by default. With false, enterprise.values say where the user's is.
	// +optional
	UseInternal *bool `json:"use_internal,omitempty"`
}

// Routing says through which Gateway of Istio the stack is reached.
type Routing struct {
	// create_gateway makes a simple HTTP Gateway, seldon-gateway, in the namespace of the SeldonOperator; true by default.
	// With false, istio.gateway of core.values and virtualService.gateways of enterprise.values name the user's.
	// +optional
	CreateGateway *bool `json:"create_gateway,omitempty"`
}

// Detectors says how the answers of detectors find the request logger.
type Detectors struct {
	// replyAlias makes http://seldon-request-logger.seldon-logs, which detectors answer to by default, a name of the request
	// logger in the namespace of the SeldonOperator. The Namespace seldon-logs is made where it is absent.
	// +optional
	ReplyAlias bool `json:"replyAlias,omitempty"`
}
