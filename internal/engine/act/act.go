package act

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/csaupgrade"
	"k8s.io/utils/clock"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/contest"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/sanitize"
)

// parallelWrites bounds the writes that one stack has in flight, crdSlots those on CRDs of all stacks together, since
// one apply of a large CRD costs the API server half a second (law 10).
const (
	parallelWrites = 8
	crdSlots       = 2
)

// Memory is where the responses of writes go, so that the engine reads its own writes (law 12).
type Memory interface {
	Wrote(room string, o *observe.Object)
	Removed(room string, key plan.Key, uid types.UID, resourceVersion string)
}

// Cleaner drops what server-side apply refuses: undeclared fields and duplicate list keys (law 11).
type Cleaner interface {
	Clean(ctx context.Context, u *unstructured.Unstructured) (*unstructured.Unstructured, []string, error)
}

// Actor writes children.
type Actor struct {
	Client  dynamic.Interface
	Catalog *catalog.Catalog
	Memory  Memory
	Tracker *contest.Tracker
	Cleaner Cleaner
	Clock   clock.PassiveClock
	Log     logr.Logger
	// Count is told of every acknowledged write, for metrics.
	Count func(key plan.Key, verb decide.Verb, reason string)

	crds chan struct{}
	once sync.Once
}

// Result is what became of one action.
type Result struct {
	Action decide.Action
	// Observed is the object after the write; nil when it does not exist or nothing is known.
	Observed *observe.Object
	// Problem is a failure that a change of input or of the cluster must clear; Err is transient.
	Problem *plan.Problem
	Err     error
	// Warnings name what was dropped from the object so that the API server takes it.
	Warnings []string
	// Wrote says that the cluster was changed.
	Wrote bool
}

// Request is what one stack wants written.
type Request struct {
	Stack  plan.Stack
	Owners []plan.Owner
	// Adopt allows taking over objects that nobody owns.
	Adopt bool
	// FormerManagers are the field managers of the operator before us.
	FormerManagers []string
	Actions        []decide.Action
}

// Do performs the actions that write, stage by stage and in their order, and returns one result per writing action. A
// stage starts only when the one before is through; failures of one object never stop its neighbours.
func (a *Actor) Do(ctx context.Context, req Request) []Result {
	a.once.Do(func() { a.crds = make(chan struct{}, crdSlots) })
	var writes []decide.Action
	for _, action := range req.Actions {
		if action.Writes() {
			writes = append(writes, action)
		}
	}
	results := make([]Result, len(writes))
	for from := 0; from < len(writes); {
		to := from
		for to < len(writes) && writes[to].Object.Stage == writes[from].Object.Stage &&
			(writes[to].Verb == decide.Delete) == (writes[from].Verb == decide.Delete) {
			to++
		}
		a.batch(ctx, req, writes[from:to], results[from:to])
		from = to
	}
	return results
}

// batch performs one stage's writes, in parallel when there are many.
func (a *Actor) batch(ctx context.Context, req Request, actions []decide.Action, results []Result) {
	if len(actions) <= parallelWrites {
		for i := range actions {
			results[i] = a.one(ctx, req, actions[i])
		}
		return
	}
	var group errgroup.Group
	group.SetLimit(parallelWrites)
	for i := range actions {
		group.Go(func() error {
			results[i] = a.one(ctx, req, actions[i])
			return nil
		})
	}
	_ = group.Wait() // The workers answer through results and never return an error.
}

func (a *Actor) one(ctx context.Context, req Request, action decide.Action) Result {
	if err := ctx.Err(); err != nil {
		return Result{Action: action, Err: err}
	}
	if action.Key.Kind == "CustomResourceDefinition" && action.Key.Group == "apiextensions.k8s.io" {
		select {
		case a.crds <- struct{}{}:
			defer func() { <-a.crds }()
		case <-ctx.Done():
			return Result{Action: action, Err: ctx.Err()}
		}
	}
	res := Result{Action: action}
	gvk := action.Key.WithVersion(action.Version)
	if action.Object.Desired != nil {
		gvk = action.Object.Desired.GroupVersionKind()
	}
	client, err := a.resource(gvk, action.Key.Namespace)
	if err != nil {
		res.Err = err
		return res
	}
	switch action.Verb {
	case decide.Create:
		a.create(ctx, req, client, &res)
	case decide.Apply:
		a.apply(ctx, req, client, &res)
	case decide.Delete:
		a.remove(ctx, client, &res)
	}
	if res.Err != nil {
		res.Problem, res.Err = classify(action.Key, gvk, res.Err)
	}
	if res.Wrote && a.Count != nil {
		a.Count(action.Key, action.Verb, action.Reason)
	}
	return res
}

func (a *Actor) resource(gvk schema.GroupVersionKind, namespace string) (dynamic.ResourceInterface, error) {
	mapping, ok := a.Catalog.Lookup(gvk)
	if !ok {
		return nil, fmt.Errorf("the API of %s is not served", gvk)
	}
	if mapping.Namespaced {
		return a.Client.Resource(mapping.Resource).Namespace(namespace), nil
	}
	return a.Client.Resource(mapping.Resource), nil
}

// create posts the object. On a name that is taken one live GET decides: ours, adoptable, or a conflict (law 1).
func (a *Actor) create(ctx context.Context, req Request, client dynamic.ResourceInterface, res *Result) {
	desired := contest.ForCreate(res.Action.Object.Desired)
	// What is declared only in part is there already, and could not be created.
	if !res.Action.Object.Partial {
		live, err := a.post(ctx, client, desired, res)
		if err == nil {
			a.wrote(req, res, live)
			return
		}
		if !apierrors.IsAlreadyExists(err) {
			res.Err = err
			return
		}
	}
	live, err := client.Get(ctx, desired.GetName(), metav1.GetOptions{})
	if err != nil {
		res.Err = err
		return
	}
	found := observe.From(live, true)
	controlled := metav1.GetControllerOfNoCopy(&found.ObjectMeta) != nil
	ours := found.OwnedBy(req.Stack, req.Owners...) || found.Refers(req.Owners...) ||
		// Nothing but our record tells whose a retained object without labels is.
		!controlled && res.Action.KnownUID != "" && res.Action.KnownUID == found.UID
	switch {
	case ours && res.Action.Object.CreateOnly:
		a.Memory.Wrote(req.Stack.Room, found)
	case ours:
		res.Action.Adopted = found.Adopted()
		// What we never wrote is the operator's before us, which made the custom resource its owner (law 8).
		res.Action.Former = found.Digest() == "" && !res.Action.Object.Partial
		a.takeUp(ctx, req, client, res, live)
	case len(live.GetOwnerReferences()) == 0 && found.Annotations[keeper.OwnerAnnotation] == "" && req.Adopt:
		res.Action.Adopted = true
		a.takeUp(ctx, req, client, res, live)
	default:
		res.Problem = conflict(res.Action.Key, live)
	}
}

// post creates the object and has it checked strictly, so that what the API server would drop in silence is dropped
// with a warning, as it is when the object is applied (law 11).
func (a *Actor) post(
	ctx context.Context, client dynamic.ResourceInterface, desired *unstructured.Unstructured, res *Result,
) (*unstructured.Unstructured, error) {
	opts := metav1.CreateOptions{FieldManager: observe.FieldManager}
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
	return client.Create(ctx, cleaned, opts)
}

func (a *Actor) takeUp(
	ctx context.Context, req Request, client dynamic.ResourceInterface, res *Result, live *unstructured.Unstructured,
) {
	if live.GetDeletionTimestamp() != nil {
		res.Err = fmt.Errorf("%s is being deleted: waiting for it to be gone", res.Action.Key)
		return
	}
	res.Action.UID, res.Action.Verb = live.GetUID(), decide.Apply
	res.Action.Migrate = true
	res.Warnings = nil
	a.applyOver(ctx, req, client, res, live)
}

// apply writes what MLKeeper declares. The live object is read first only when the managedFields of a POST are to be
// migrated, drift is repaired, or an autoscaler may hold the replicas, since only then it is needed.
func (a *Actor) apply(ctx context.Context, req Request, client dynamic.ResourceInterface, res *Result) {
	var live *unstructured.Unstructured
	if res.Action.Migrate || res.Action.Former || res.Action.Reason == decide.ReasonDrift ||
		contest.DeclaresReplicas(res.Action.Object.Desired) {
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
	a.applyOver(ctx, req, client, res, live)
}

func (a *Actor) applyOver(
	ctx context.Context, req Request, client dynamic.ResourceInterface, res *Result, live *unstructured.Unstructured,
) {
	desired := contest.Yield(res.Action.Object.Desired, live, observe.FieldManager, contest.Autoscaled(live))
	if res.Action.Adopted {
		// Owner references go only on objects that we created, so an adopted one is ours by its marks alone (law 1).
		desired.SetOwnerReferences(nil)
		annotations := desired.GetAnnotations()
		annotations[keeper.AdoptedAnnotation] = "true"
		desired.SetAnnotations(annotations)
	}
	if live != nil {
		if err := release(ctx, client, live, desired, req.Owners); err != nil {
			res.Err = err
			return
		}
		if res.Action.Reason == decide.ReasonDrift {
			lost := contest.Lost(desired, live, observe.FieldManager)
			a.Tracker.Repaired(res.Action.Key, res.Action.UID, lost, a.Clock.Now())
			defer func() {
				if res.Err != nil {
					a.Tracker.Undo(res.Action.Key, res.Action.UID, lost)
				}
			}()
		}
		managers := sets.New(observe.FieldManager)
		if res.Action.Former {
			managers.Insert(req.FormerManagers...)
		}
		if err := a.migrate(ctx, client, live, managers); err != nil {
			res.Err = err
			return
		}
	}
	if yielded := a.Tracker.Contested(res.Action.Key, res.Action.UID); len(yielded) > 0 {
		desired = contest.Remove(desired, yielded)
	}
	out, err := a.patch(ctx, client, desired, res.Action.UID)
	if sanitize.Refused(err) && a.Cleaner != nil {
		var cleaned *unstructured.Unstructured
		if cleaned, res.Warnings, err = a.Cleaner.Clean(ctx, desired); err == nil {
			out, err = a.patch(ctx, client, cleaned, res.Action.UID)
		}
	}
	switch {
	case err == nil:
		a.wrote(req, res, out)
	case isImmutable(err) && recreates(res.Action.Object):
		res.Action.Reason = "Immutable"
		a.remove(ctx, client, res)
	default:
		res.Err = err
	}
}

// Release takes an object that must outlive its custom resource from the custom resource, if it is there.
func (a *Actor) Release(ctx context.Context, o plan.Stamped, owners []plan.Owner) error {
	client, err := a.resource(o.Desired.GroupVersionKind(), o.Key.Namespace)
	if err != nil {
		return err
	}
	live, err := client.Get(ctx, o.Key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", o.Key, err)
	}
	return release(ctx, client, live, o.Desired, owners)
}

// release takes references to our owners that are not declared off an object, such as the one by which the operator
// before us made a retained object go with the custom resource, or the one to the custom resource where an Inventory is
// the owner now, and of the declared one what we never set (laws 2 and 8). They belong to another field manager, so
// that an apply would leave them. Our marks come with the same write, so that a crash leaves an object that is known
// again. It changes live to what was written.
func release(
	ctx context.Context, client dynamic.ResourceInterface, live, desired *unstructured.Unstructured, owners []plan.Owner,
) error {
	declared := desired.GetOwnerReferences()
	var refs []metav1.OwnerReference
	stale := false
	for _, ref := range live.GetOwnerReferences() {
		ours := slices.ContainsFunc(owners, func(o plan.Owner) bool { return o.UID == ref.UID })
		if ours && (ref.BlockOwnerDeletion != nil ||
			!slices.ContainsFunc(declared, func(d metav1.OwnerReference) bool { return d.UID == ref.UID })) {
			stale = true
			continue
		}
		refs = append(refs, ref)
	}
	if !stale {
		return nil
	}
	for _, d := range declared {
		if !slices.ContainsFunc(refs, func(ref metav1.OwnerReference) bool { return d.UID == ref.UID }) {
			refs = append(refs, d)
		}
	}
	labels, annotations := desired.GetLabels(), desired.GetAnnotations()
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": live.GetUID(), "resourceVersion": live.GetResourceVersion(), "ownerReferences": refs,
		"labels": map[string]any{
			keeper.RoomLabel: labels[keeper.RoomLabel], keeper.StackLabel: labels[keeper.StackLabel],
		},
		"annotations": map[string]any{keeper.OwnerAnnotation: annotations[keeper.OwnerAnnotation]},
	}})
	if err != nil {
		return fmt.Errorf("encode the owner references of %s: %w", live.GetName(), err)
	}
	out, err := client.Patch(ctx, live.GetName(), types.MergePatchType, data,
		metav1.PatchOptions{FieldManager: observe.FieldManager})
	if err != nil {
		return err
	}
	live.Object = out.Object
	return nil
}

// patch applies with the UID in the body, so that it never recreates an object nor touches a replacement (law 1).
func (a *Actor) patch(
	ctx context.Context, client dynamic.ResourceInterface, desired *unstructured.Unstructured, uid types.UID,
) (*unstructured.Unstructured, error) {
	body := desired.DeepCopy()
	body.SetUID(uid)
	data, err := json.Marshal(body.Object)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", plan.KeyOf(desired), err)
	}
	force := true
	return client.Patch(ctx, desired.GetName(), types.ApplyPatchType, data,
		metav1.PatchOptions{FieldManager: observe.FieldManager, Force: &force})
}

// migrate turns the managedFields entries of our POST, and of an operator before us, into one of an apply; otherwise
// fields that a later plan no longer has would stay for ever (law 1).
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
	_, err = client.Patch(ctx, live.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{})
	return err
}

// remove deletes by UID in the background, so that the call never waits for dependents.
func (a *Actor) remove(ctx context.Context, client dynamic.ResourceInterface, res *Result) {
	background := metav1.DeletePropagationBackground
	uid := res.Action.UID
	err := client.Delete(ctx, res.Action.Key.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background,
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		// Gone already, or replaced by an object that is not the one we judged: the watch will tell.
		return
	}
	if err != nil {
		res.Err = err
		return
	}
	res.Wrote = true
}

func (a *Actor) wrote(req Request, res *Result, live *unstructured.Unstructured) {
	res.Wrote = true
	res.Observed = observe.From(live, health.NeedsStatus(res.Action.Key.GroupKind))
	a.Memory.Wrote(req.Stack.Room, res.Observed)
}

// recreates says whether an object may be deleted and made again for the sake of an immutable field. Nothing that
// holds data or serves is, unless the plan says so.
func recreates(o plan.Stamped) bool {
	switch o.OnImmutable {
	case plan.ImmutableRecreate:
		return o.Key.Kind != "PersistentVolumeClaim"
	case plan.ImmutableStall:
		return false
	}
	switch o.Key.Kind {
	case "Job", "RoleBinding", "ClusterRoleBinding", "ConfigMap", "Secret":
		return !o.Retain
	}
	return false
}

func isImmutable(err error) bool {
	return apierrors.IsInvalid(err) && !isDenied(err) && (strings.Contains(err.Error(), "immutable") ||
		strings.Contains(err.Error(), "cannot change roleRef"))
}
