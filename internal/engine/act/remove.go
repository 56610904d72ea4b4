package act

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/apistatus"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/observe"
)

// prune deletes what the plan no longer has as it was judged. What no watch shows any more is read first, since nobody
// knows whose it is by now, and judged as what a watch shows.
func (a *Actor) prune(ctx context.Context, req Request, client dynamic.ResourceInterface, res *Result) {
	version := res.Action.ResourceVersion
	if version == "" {
		live, err := client.Get(ctx, res.Action.Key.Name, metav1.GetOptions{})
		if apistatus.ObjectNotFound(err, res.Action.Key.Name) || err == nil && (live.GetUID() != res.Action.UID || !prunable(req, live)) {
			return
		}
		if err != nil {
			res.Err = err
			return
		}
		if res.Kept = req.Refused || decide.Kept(observe.From(live, false), req.KeepRuns); res.Kept {
			return
		}
		version = live.GetResourceVersion()
	}
	a.remove(ctx, req, client, res, &version)
}

// prunable says that an object that lost its label is the stack's, on the evidence of the object itself: the stack controls
// it or, where nothing does, its mark names the stack and MLKeeper holds fields of it. That it is recorded is no evidence,
// since users may write a status.
func prunable(req Request, live *unstructured.Unstructured) bool {
	seen := observe.From(live, false)
	if metav1.GetControllerOfNoCopy(&seen.ObjectMeta) != nil {
		return seen.OwnedBy(req.Stack, req.Owners...)
	}
	return seen.Written() && seen.Annotations[keeper.OwnerAnnotation] == req.Stack.ID()
}

// remove deletes by UID, and by resourceVersion where one is given, in the background, so that the call never waits for
// dependents.
func (a *Actor) remove(ctx context.Context, req Request, client dynamic.ResourceInterface, res *Result, version *string) {
	background := metav1.DeletePropagationBackground
	uid := res.Action.UID
	err := client.Delete(ctx, res.Action.Key.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: version}, PropagationPolicy: &background,
	})
	switch {
	case err == nil, apistatus.ObjectNotFound(err, res.Action.Key.Name):
		res.Wrote = err == nil
		a.Memory.Deleted(req.Stack.Controller, res.Action.Key, res.Action.UID)
	case apierrors.IsConflict(err):
		res.Stale = true
	default:
		res.Err = err
	}
}
