package v1alpha1

// Observation says what the values of rendered objects mean that others set: those of their fields, and those of their conditions.
type Observation struct {
	// driftDetection says what becomes of what others change in the objects, and which fields are left to them.
	// +optional
	DriftDetection *DriftDetection `json:"driftDetection,omitempty"`
	// healthCheckExprs tell the health of custom resources among the objects, where their conditions do not tell it as kstatus reads them. What
	// cannot be compiled is reported, and the objects stay declared.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	HealthCheckExprs []HealthCheckExpr `json:"healthCheckExprs,omitempty"`
}

// DriftMode says what becomes of what others change in objects.
//
// +kubebuilder:validation:Enum=enabled;warn
type DriftMode string

const (
	// DriftEnabled takes back what others change; it is the default.
	DriftEnabled DriftMode = "enabled"
	// DriftWarn leaves it, with a warning in the status, until the object is declared anew.
	DriftWarn DriftMode = "warn"
)

// DriftDetection says what becomes of what others change in objects, in the words of Flux's HelmRelease.
type DriftDetection struct {
	// mode is enabled, the default, which takes back what others change, or warn, which leaves values that others set and names them in
	// status.warnings. With both, what others delete is made again, and a change of what is declared takes back everything but
	// what ignore names. From warn to enabled, everything that was left is taken back.
	// +optional
	Mode DriftMode `json:"mode,omitempty"`
	// ignore names fields whose values are left to others, also when the object is declared anew. What was left for a path that is removed
	// is taken back.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Ignore []DriftRule `json:"ignore,omitempty"`
}

// DriftRule names fields of objects.
type DriftRule struct {
	// paths are JSON pointers, such as /spec/replicas or /metadata/annotations/example.com~1key. A pointer to a map or a list covers what is
	// below it. An entry of a list is named by its number in what is declared.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=2
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:Pattern=`^(/([^~/]|~[01])+)+$`
	Paths []string `json:"paths"`
	// target is which objects the rule is for; all of them without it.
	// +optional
	Target *DriftTarget `json:"target,omitempty"`
}

// DriftTarget selects objects. A field that is empty selects any.
type DriftTarget struct {
	// group is the API group, such as apps.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
	// kind is the kind, such as Deployment.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`
	// namespace is the namespace of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// name is the name of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// HealthCheckExpr tells the health of the objects of a kind by expressions in CEL, in the words of Flux's Kustomization. They see apiVersion,
// kind, of the metadata name, namespace and generation, and of the status observedGeneration and the conditions without their times.
type HealthCheckExpr struct {
	// apiVersion is the group and version of the kind, such as cert-manager.io/v1.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion"`
	// kind is the kind, such as ClusterIssuer.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// current is true of an object that is as declared. It is asked last; what gives true first counts.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Current string `json:"current"`
	// inProgress is true of an object that is on its way. It is asked first. Without it, an object is in progress whose
	// status.observedGeneration is another than its generation.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	InProgress string `json:"inProgress,omitempty"`
	// failed is true of an object that will not become current by itself.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Failed string `json:"failed,omitempty"`
}
