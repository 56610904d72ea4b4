// Package kubeflow is the controller of KfDef: it has the archives of spec.repos fetched (internal/source), renders the
// applications as kfctl v1.2 did, or as kustomize build does (internal/manifest/kustomize), converts what the cluster no longer serves
// (internal/manifest/convert), and puts the objects into stages: Namespaces and CustomResourceDefinitions first, then one
// stage for each application. It never writes to the cluster.
package kubeflow
