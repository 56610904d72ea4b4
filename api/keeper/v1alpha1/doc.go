// Package v1alpha1 holds the types of MLKeeper's own API group, keeper.mlkeeper.dev, and the field types that every
// kind shares. It holds types only: no logic, no client.
//
// +kubebuilder:object:generate=true
// +groupName=keeper.mlkeeper.dev
package v1alpha1
