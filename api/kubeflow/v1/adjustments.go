package v1

import keeper "mlkeeper.dev/api/keeper/v1alpha1"

// Adjustments change what an application renders. Their names and meanings are those of Flux's Kustomization. They need the rendering
// Kustomize: with Kfctl, an application that has one fails.
type Adjustments struct {
	// patches are applied to what the application renders, in this order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Patches []keeper.Patch `json:"patches,omitempty"`
	// targetNamespace is the namespace that all objects of the application are put into, whatever their files name. A Namespace of the
	// application is renamed to it, as by the field namespace of a kustomization.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	TargetNamespace string `json:"targetNamespace,omitempty"`
	// namePrefix is put before the names of all objects, as by a kustomization: not before those of Namespaces and definitions.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	NamePrefix string `json:"namePrefix,omitempty"`
	// nameSuffix is put behind the names of all objects, as namePrefix before them.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	NameSuffix string `json:"nameSuffix,omitempty"`
	// commonMetadata is set on all objects, in place of what they have under the same names.
	// +optional
	CommonMetadata *keeper.CommonMetadata `json:"commonMetadata,omitempty"`
	// postBuild replaces variables in what the application renders. Without it nothing is looked for.
	// +optional
	PostBuild *PostBuild `json:"postBuild,omitempty"`
}

// PostBuild replaces variables after the build: ${NAME} by its value, ${NAME:=VALUE} by VALUE where it has none. $${NAME} stays ${NAME}.
// A variable without a value is an error, and so is any other text in such braces. A text that is a variable and nothing else may become
// a number or a boolean, but not in data, stringData, labels, annotations, matchLabels, nodeSelector, value, args and command. An object
// with the label or annotation kustomize.toolkit.fluxcd.io/substitute: disabled is left as it is.
type PostBuild struct {
	// substitute are the values of variables. They win over those of substituteFrom.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Substitute map[string]string `json:"substitute,omitempty"`
	// substituteFrom are ConfigMaps and Secrets of the KfDef's namespace whose keys are variables. They are read with the rights of the
	// ServiceAccount; of two with the same key, the later one wins.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	SubstituteFrom []SubstituteReference `json:"substituteFrom,omitempty"`
}

// SubstituteReference is an object with values.
type SubstituteReference struct {
	// kind is ConfigMap or Secret.
	// +required
	// +kubebuilder:validation:Enum=ConfigMap;Secret
	Kind string `json:"kind"`
	// name is that of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// optional lets the object be absent; without it the KfDef waits for the object.
	// +optional
	Optional bool `json:"optional,omitempty"`
}
