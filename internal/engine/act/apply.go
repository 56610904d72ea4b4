package act

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/csaupgrade"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/apistatus"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/fieldownership"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/sanitize"
)

// apply writes what MLKeeper declares. The live object is read first only when the managedFields of a POST are to be
// migrated, drift is repaired, or another manager may fill what is declared, since only then it is needed.
func (a *Actor) apply(ctx context.Context, req Request, client dynamic.ResourceInterface, res *Result) {
	var live *unstructured.Unstructured
	if res.Action.Migrate || res.Action.MigratePrevious || res.Action.Reason == decide.ReasonDrift ||
		len(res.Action.Object.Drift.Ignore) > 0 || fieldownership.DependsOnLive(res.Action.Object.Desired) {
		var err error
		live, err = client.Get(ctx, res.Action.Key.Name, metav1.GetOptions{})
		if err != nil {
			res.Err = err
			return
		}
		if live.GetUID() != res.Action.UID {
			res.Err = fmt.Errorf("%s was replaced meanwhile", res.Action.Key)
			return
		}
	}
	a.applyOver(ctx, req, client, res, live, false)
}

// applyOver applies to an object that exists; live is as it was read, or nil. One that is adopted (takes) must not have
// changed since then, as it may have become another's.
func (a *Actor) applyOver(
	ctx context.Context, req Request, client dynamic.ResourceInterface, res *Result, live *unstructured.Unstructured,
	takes bool,
) {
	managers := sets.New(observe.FieldManager)
	if res.Action.MigratePrevious {
		managers.Insert(fieldownership.PreviousManagers(live, req.PreviousManagers, req.Owners, req.PreviousOwner, observe.FieldManager)...)
	}
	scaled := LeavesReplicas(ctx, a.Client, res.Action.Object.Object, live)
	desired := fieldownership.DropExternallyManaged(res.Action.Object.Desired, live, managers, scaled)
	if res.Action.Adopted {
		// Owner references go only on objects that we created, so an adopted one is ours by its marks alone (invariant 1).
		desired.SetOwnerReferences(nil)
		annotations := desired.GetAnnotations()
		annotations[keeper.AdoptedAnnotation] = "true"
		desired.SetAnnotations(annotations)
	}
	if live != nil {
		if bindsAnother(live, desired) && recreates(res.Action) {
			a.recreate(ctx, req, client, res)
			return
		}
		if err := release(ctx, client, live, desired, req.Owners); err != nil {
			res.Err = err
			return
		}
		if !res.Action.MigratePrevious {
			desired = leave(res, desired, live)
		}
		if res.Action.Reason == decide.ReasonDrift {
			lost := fieldownership.Lost(desired, live, observe.FieldManager)
			owner := types.NamespacedName{Namespace: req.Stack.Namespace, Name: req.Stack.Name}
			a.Tracker.Repaired(res.Action.Key, res.Action.UID, owner, lost, a.Clock.Now())
			defer func() {
				if res.Err != nil {
					a.Tracker.Undo(res.Action.Key, res.Action.UID, lost)
				}
			}()
		}
		if err := a.migrate(ctx, client, live, managers); err != nil {
			res.Err = err
			return
		}
	}
	if res.Action.Reason == decide.ReasonChanged {
		a.Tracker.Forget(res.Action.Key) // Declared anew: who has the field now may have been told to leave it.
	}
	if ceded := a.Tracker.Ceded(res.Action.Key, res.Action.UID); len(ceded) > 0 {
		desired = fieldownership.Remove(desired, ceded)
		for _, field := range ceded {
			res.Warnings = append(res.Warnings, CededField+field.Text+cededTo+field.Manager)
		}
	}
	desired.SetUID(res.Action.UID)
	if takes {
		desired.SetResourceVersion(live.GetResourceVersion())
	}
	out, err := a.patchWithRemedy(ctx, client, res, desired)
	switch {
	case err == nil:
		a.wrote(req, res, out)
	case apistatus.Immutable(err) && recreates(res.Action):
		a.recreate(ctx, req, client, res)
	default:
		res.Err = err
	}
}

// What begins the entries of what was left out of an object for other managers: the warning of a field, the JSON pointer that is ignored, and
// a field that was ceded.
const (
	DriftWarning = "drift: "
	IgnoredField = "ignored: "
	CededField   = "ceded: "
)

// cededTo stands between a ceded field and its manager.
const cededTo = " to "

// CededOf returns the ceded fields among what was left out of an object. Another process may have ceded them: without a record of that, the
// conflict would not be reported after a fail-over, although the field is still another's.
func CededOf(leftOut []string) (out []fieldownership.Field) {
	for _, entry := range leftOut {
		field, ceded := strings.CutPrefix(entry, CededField)
		if at := strings.LastIndex(field, cededTo); ceded && at >= 0 {
			out = append(out, fieldownership.Field{Text: field[:at], Manager: field[at+len(cededTo):]})
		}
	}
	return out
}

// leave takes out of what is declared what is left to the managers that have set it: what the object ignores, and, where it leaves drift,
// everything else too, with a warning.
func leave(res *Result, desired, live *unstructured.Unstructured) *unstructured.Unstructured {
	drift := res.Action.Object.Drift
	if !drift.Leave && len(drift.Ignore) == 0 {
		return desired
	}
	left, rest, by := fieldownership.Left(desired, fieldownership.Lost(desired, live, observe.FieldManager), drift.Ignore)
	for _, pointer := range by {
		res.Warnings = append(res.Warnings, IgnoredField+pointer)
	}
	if drift.Leave && res.Action.Reason == decide.ReasonDrift {
		for _, f := range rest {
			res.Warnings = append(res.Warnings, fmt.Sprintf("%s%s is left as %s has set it, since driftDetection.mode is warn", DriftWarning, f.Text, f.Manager))
		}
		left = append(left, rest...)
	}
	return fieldownership.Remove(desired, left)
}

// patchWithRemedy applies, and a second time where what the API server refused has a remedy here.
func (a *Actor) patchWithRemedy(
	ctx context.Context, client dynamic.ResourceInterface, res *Result, desired *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	out, err := a.patch(ctx, client, desired)
	if KeepsLimits(err, desired) {
		if err = a.replaceStrategy(ctx, client, desired); err == nil {
			out, err = a.patch(ctx, client, desired)
		}
	}
	if sanitize.Refused(err) && a.Cleaner != nil {
		var cleaned *unstructured.Unstructured
		var dropped []string
		if cleaned, dropped, err = a.Cleaner.Clean(ctx, desired); err == nil {
			desired = cleaned
			out, err = a.patch(ctx, client, desired)
		}
		res.Warnings = append(res.Warnings, dropped...)
	}
	if err == nil {
		a.tellPruned(res, desired, out)
	}
	return out, err
}

// tellPruned warns of what the API server has pruned of a custom resource without a word.
func (a *Actor) tellPruned(res *Result, sent, answer *unstructured.Unstructured) {
	if generation, _ := a.Catalog.Definition(res.Action.Key.GroupKind); generation > 0 {
		res.Warnings = append(res.Warnings, sanitize.Pruned(sent, answer)...)
	}
}

// patch applies. The body carries the UID, so that it never recreates an object nor touches a replacement (invariant 1).
func (a *Actor) patch(
	ctx context.Context, client dynamic.ResourceInterface, desired *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	data, err := json.Marshal(desired.Object)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", plan.KeyOf(desired), err)
	}
	force := true
	return client.Patch(ctx, desired.GetName(), types.ApplyPatchType, data,
		metav1.PatchOptions{FieldManager: observe.FieldManager, Force: &force})
}

// migrate turns the managedFields entries of our POST, and of a previous operator, into one of an apply; otherwise
// fields that a later plan no longer has would stay for ever (invariant 1). It gives live the resourceVersion of the answer.
func (a *Actor) migrate(
	ctx context.Context, client dynamic.ResourceInterface, live *unstructured.Unstructured, managers sets.Set[string],
) error {
	if !slices.ContainsFunc(live.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return managers.Has(e.Manager) && e.Operation == metav1.ManagedFieldsOperationUpdate && e.Subresource == ""
	}) {
		return nil
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, managers, observe.FieldManager)
	if err != nil || len(patch) == 0 {
		return err
	}
	out, err := client.Patch(ctx, live.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	live.SetResourceVersion(out.GetResourceVersion())
	return nil
}
