package kubeflow

import (
	"mlkeeper.dev/internal/manifest/worker"
	"mlkeeper.dev/internal/origin"
	"mlkeeper.dev/internal/rendering"
)

// Settings are what an administrator decides for all KfDefs.
type Settings struct {
	// Trusted lets the applications of every KfDef that names no ServiceAccount be applied with the operator's own rights.
	// Who may create a KfDef then may do whatever the operator may.
	Trusted bool
	// DryRun says that nothing is written, so that nobody's rights are needed.
	DryRun bool
	// DefaultServiceAccount is the ServiceAccount, of its own namespace, of a KfDef that names none; empty for none.
	DefaultServiceAccount string
	// OperatorNamespace is the namespace of the operator; empty where it is not known.
	OperatorNamespace string
	// RemoteBases says which addresses in kustomizations are fetched; empty for those whose content does not move.
	RemoteBases RemoteBases
	// Sources fetches archives; nil refuses every KfDef.
	Sources origin.Fetcher
	// Workers are the processes that render; nil for those that all share who name none.
	Workers *worker.Pool
	// Results bounds what is kept of renderings; nil for no bound.
	Results *rendering.Memory
}
