// Package v1 holds the stored version of TrustyAIService (trustyai.opendatahub.io/v1). Its fields are those of
// TrustyAI ADR 3 and of the upstream CustomResourceDefinition together, under their own names; v1alpha1 has the same
// schema. It holds types only.
//
// +kubebuilder:object:generate=true
// +groupName=trustyai.opendatahub.io
package v1
