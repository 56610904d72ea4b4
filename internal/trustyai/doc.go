// Package trustyai is the controller of TrustyAIService (trustyai.opendatahub.io). It gathers what a service depends on,
// renders its children as typed objects, and projects what was observed onto its status.
//
// A service has one of two shapes for life. One that uses spec.trustyaiMetrics gets the children of TrustyAI ADR 3
// under the names of the ADR; any other gets those of trustyai-service-operator HEAD 11c335b under upstream's names.
//
// Invariants:
//   - Everything rendered lives in the namespace of the custom resource, but for the ClusterRoleBinding of a Secured
//     service. Nothing is ever made in the namespace of the operator.
//   - Render is pure: certificates are made while gathering, kept in Secrets, and read back as facts.
//   - User input reaches the cluster as values of typed fields, never through a text template.
//   - A problem never tears down what runs: what cannot be rendered safely is left out of the plan together with a
//     problem, and the engine prunes nothing while there is one.
//   - The state of a migration lives in the status alone, and is written before it is acted upon.
package trustyai
