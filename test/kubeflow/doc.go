// Package kubeflow shows KfDef on the real control plane, with the KfDefs and archives that Kubeflow's users have.
package kubeflow
