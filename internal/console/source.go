package console

import "context"

// Ref names an object.
type Ref struct {
	Group     string `json:"group"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Source is what there is to show. Its methods are called concurrently.
type Source interface {
	// About says which cluster is shown, and as whom.
	About(ctx context.Context) any
	// Overview feeds a row for each custom resource until the context ends: of one namespace, or of all where none is named.
	Overview(ctx context.Context, namespace string, feed *Feed) error
	// Stack feeds a custom resource, why it is as it is, its stages, its objects and their pods until the context ends.
	Stack(ctx context.Context, ref Ref, feed *Feed) error
	// Timeline feeds what happened to a custom resource and its objects until the context ends.
	Timeline(ctx context.Context, ref Ref, feed *Feed) error
	// Diff says what MLKeeper would change for a custom resource. With dryRun the API server tries each change, and stores none.
	Diff(ctx context.Context, ref Ref, dryRun bool) (any, error)
	// Object shows one object, without the values of Secrets.
	Object(ctx context.Context, ref Ref) (any, error)
	// Act carries out suspend, resume or reconcile for a custom resource.
	Act(ctx context.Context, ref Ref, verb string) error
}
