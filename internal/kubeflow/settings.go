package kubeflow

import (
	"context"

	"mlkeeper.dev/internal/source"
)

// Settings are what an administrator decides for all KfDefs.
type Settings struct {
	// Trusted lets the applications of every KfDef be applied with the operator's own rights. Who may create a KfDef then
	// may do whatever the operator may.
	Trusted bool
	// Sources fetches archives; nil refuses every KfDef.
	Sources Fetcher
}

// Fetcher fetches archives. *source.Store is one.
type Fetcher interface {
	Fetch(ctx context.Context, r source.Request) (*source.Artifact, error)
}
