// Package v1alpha1 holds the version of TrustyAIService that TrustyAI ADR 3 proposes
// (trustyai.opendatahub.io/v1alpha1). It shares its schema with v1, so the API server converts between the two without
// a webhook and nothing is lost. It holds types only.
//
// +kubebuilder:object:generate=true
// +groupName=trustyai.opendatahub.io
package v1alpha1
