// Package v1alpha1 holds Tfserv (servapi.dev-state.com/v1alpha1): the eight fields of the tutorial operator with their
// names and meanings, and what running TensorFlow Serving in production needs beyond them, all of it optional. It holds
// types only.
//
// +kubebuilder:object:generate=true
// +groupName=servapi.dev-state.com
package v1alpha1
