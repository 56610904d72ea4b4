// Package v1 holds KfDef (kfdef.apps.kubeflow.org/v1): the complete schema of kfctl v1.2, and a status that tells. It
// holds types only.
//
// +kubebuilder:object:generate=true
// +groupName=kfdef.apps.kubeflow.org
package v1
