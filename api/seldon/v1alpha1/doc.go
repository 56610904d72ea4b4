// Package v1alpha1 holds the types of operator.seldon.io/v1alpha1: the SeldonOperator that Seldon's meta-operator of Seldon
// Deploy 2.0 read, with its field names as they were (create_gateway, internal_elastic, use_internal), and what MLKeeper
// adds. It holds types only.
//
// +kubebuilder:object:generate=true
// +groupName=operator.seldon.io
package v1alpha1
