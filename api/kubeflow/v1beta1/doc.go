// Package v1beta1 holds KfDef (kfdef.apps.kubeflow.org/v1beta1), which has the same fields as v1. It holds types only.
//
// +kubebuilder:object:generate=true
// +groupName=kfdef.apps.kubeflow.org
package v1beta1
