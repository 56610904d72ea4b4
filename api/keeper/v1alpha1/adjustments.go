package v1alpha1

// Patch changes objects that were rendered, as the patches of a kustomization do.
type Patch struct {
	// patch is a strategic merge patch or a list of JSON patch operations (RFC 6902), as YAML or JSON in place.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Patch string `json:"patch"`
	// target selects the objects. A strategic merge patch without it applies to the object that it names; the operations of a JSON patch
	// need it.
	// +optional
	Target *PatchTarget `json:"target,omitempty"`
}

// PatchTarget selects objects: those for which every field that is given matches.
type PatchTarget struct {
	// group is the API group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
	// version is the version of the API group.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version,omitempty"`
	// kind is the kind.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`
	// namespace is a regular expression for the whole namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Namespace string `json:"namespace,omitempty"`
	// name is a regular expression for the whole name, without the hash that kustomize adds to generated ones.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// annotationSelector selects by annotations, in the syntax of label selectors.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	AnnotationSelector string `json:"annotationSelector,omitempty"`
	// labelSelector selects by labels.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	LabelSelector string `json:"labelSelector,omitempty"`
}

// CommonMetadata are labels and annotations.
type CommonMetadata struct {
	// annotations are set on all objects.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
	// labels are set on all objects, but not in selectors and pod templates.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]string `json:"labels,omitempty"`
}
