package act

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/apistatus"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/fieldownership"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/sanitize"
)

// create posts the object. On a name that is taken one live GET decides: ours, adoptable, or a conflict (invariant 1). A quota refuses before
// the API server looks at the name, and what has the name may be what fills it.
func (a *Actor) create(ctx context.Context, req Request, client dynamic.ResourceInterface, res *Result) {
	desired := fieldownership.ForCreate(res.Action.Object.Desired)
	// What is declared only in part is there already, and could not be created.
	if !res.Action.Object.Partial {
		live, err := a.post(ctx, client, desired, res)
		if err == nil {
			a.wrote(req, res, live)
			return
		}
		if !apierrors.IsAlreadyExists(err) {
			res.Err = err
			if !apistatus.OverQuota(err) {
				return
			}
		}
	}
	live, err := client.Get(ctx, desired.GetName(), metav1.GetOptions{})
	if err != nil {
		res.Err = cmp.Or(res.Err, err)
		return
	}
	res.Err = nil
	found := observe.From(live, true)
	ours, free := ownership(req, res.Action, live, found)
	switch {
	case ours && res.Action.Object.IfNotPresent:
		a.Memory.Wrote(req.Stack.Controller, found)
	case ours:
		res.Action.Adopted = found.Adopted()
		// What we never wrote is the previous operator's, which made the custom resource its owner (invariant 8).
		res.Action.MigratePrevious = found.AppliedHash() == "" && !res.Action.Object.Partial
		a.adopt(ctx, req, client, res, live)
	case free && (req.Adopt && req.adoptable(live) || res.Action.Object.Adopt):
		res.Action.Adopted = true
		a.adopt(ctx, req, client, res, live)
	default:
		res.Problem = Conflict(res.Action.Key, observe.OwnerOf(live))
		if free && !req.adoptable(live) {
			res.Problem.Remedy = "rename or delete that object, or the custom resource; it is not adopted, since it concerns other namespaces"
		}
	}
}

// ownership says of an object under the name of a child whether it is ours, and whether it is nobody's.
func ownership(req Request, action decide.Action, live *unstructured.Unstructured, found *observe.Object) (ours, free bool) {
	controlled := metav1.GetControllerOfNoCopy(&found.ObjectMeta) != nil
	maker := found.Annotations[keeper.OwnerAnnotation]
	free = len(live.GetOwnerReferences()) == 0 && maker == ""
	ours = found.OwnedBy(req.Stack, req.Owners...) || found.Refers(req.Owners...) ||
		free && (action.Object.Inherit || req.PreviousOwner.Of(live.GetAnnotations())) ||
		// Our record tells whose a retained object without labels is, if MLKeeper has written it at all.
		!controlled && found.Written() && action.KnownUID != "" && action.KnownUID == found.UID && (maker == "" || maker == req.Stack.ID())
	return ours, free
}

// post creates the object and has it checked strictly, so that what the API server would drop in silence is dropped
// with a warning, as it is when the object is applied (invariant 11).
func (a *Actor) post(
	ctx context.Context, client dynamic.ResourceInterface, desired *unstructured.Unstructured, res *Result, dryRun ...string,
) (*unstructured.Unstructured, error) {
	opts := metav1.CreateOptions{FieldManager: observe.FieldManager, DryRun: dryRun}
	if a.Cleaner == nil {
		return client.Create(ctx, desired, opts)
	}
	if sanitize.Suspicious(desired) {
		if cleaned, warnings, err := a.Cleaner.Clean(ctx, desired); err == nil {
			desired, res.Warnings = cleaned, warnings
		}
	}
	opts.FieldValidation = metav1.FieldValidationStrict
	live, err := client.Create(ctx, desired, opts)
	if !sanitize.RefusedStrictly(err) {
		return live, err
	}
	opts.FieldValidation = metav1.FieldValidationIgnore
	cleaned, warnings, err := a.Cleaner.Clean(ctx, desired)
	if errors.Is(err, sanitize.ErrNoSchema) {
		cleaned, err = desired, nil
	}
	if err != nil {
		return nil, err
	}
	res.Warnings = append(res.Warnings, warnings...)
	live, err = client.Create(ctx, cleaned, opts)
	if err == nil {
		a.tellPruned(res, cleaned, live)
	}
	return live, err
}

func (a *Actor) adopt(
	ctx context.Context, req Request, client dynamic.ResourceInterface, res *Result, live *unstructured.Unstructured,
) {
	if live.GetDeletionTimestamp() != nil {
		res.Err = fmt.Errorf("%s is being deleted: waiting for it to be gone", res.Action.Key)
		return
	}
	res.Action.UID, res.Action.Verb = live.GetUID(), decide.Apply
	res.Action.Migrate = true
	res.Warnings = nil
	a.applyOver(ctx, req, client, res, live, true)
	if res.failed() {
		// The next attempt is a creation again, and is to be known as the same write.
		res.Action.UID = ""
	}
}
