package act

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"mlkeeper.dev/internal/engine/apistatus"
	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/fieldownership"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/parallel"
)

// fewWrites are made one after the other, parallelWrites bounds those that one stack has in flight if they are more: the first
// write of a new kind, and those of Services, may take the API server seconds in which others are not to wait. crdSlots bounds
// those on CRDs of all stacks together, since one apply of a large CRD costs the API server half a second (invariant 10).
const (
	fewWrites      = 8
	parallelWrites = 16
	crdSlots       = 2
)

// Memory is where the responses of writes go, so that the engine reads its own writes (invariant 12).
type Memory interface {
	Wrote(controller string, o *observe.Object)
	Deleted(controller string, key plan.Key, uid types.UID)
}

// Cleaner drops what server-side apply refuses: undeclared fields and duplicate list keys (invariant 11).
type Cleaner interface {
	Clean(ctx context.Context, u *unstructured.Unstructured) (*unstructured.Unstructured, []string, error)
}

// Actor writes children.
type Actor struct {
	Client dynamic.Interface
	// As gives the client of a user whose rights are used in place of the operator's.
	As      func(user string) (dynamic.Interface, error)
	Catalog *catalog.Catalog
	Memory  Memory
	Tracker *fieldownership.Tracker
	Cleaner Cleaner
	Clock   clock.PassiveClock
	Log     logr.Logger
	// Count is called for every acknowledged write, CountFailed with the cause of every failed one, for metrics.
	Count       func(key plan.Key, verb decide.Verb, reason string)
	CountFailed func(key plan.Key, cause string)

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
	// Stale says that the object has changed since it was judged, so that nothing was done.
	Stale bool
	// Kept says that the object stays though the plan no longer has it.
	Kept bool
}

// Request is what one stack wants written.
type Request struct {
	Stack  plan.Stack
	Owners []plan.Owner
	// ActAs is the user whose rights are used; empty for the operator's own.
	ActAs string
	// Adopt allows the adoption of objects that nobody owns, AdoptAnywhere also of those that concern other namespaces: who brings
	// objects of all kinds is trusted with them, or acts with rights of his own.
	Adopt, AdoptAnywhere bool
	// PreviousOwner is how the previous operator marked what is to be adopted.
	PreviousOwner plan.Mark
	// PreviousManagers are the field managers of the previous operator.
	PreviousManagers []string
	// Refused says that something of the plan is not written, since it was refused before, belongs to another owner or has no API, or may be refused.
	Refused bool
	// KeepRuns leaves what was run and the plan no longer has.
	KeepRuns bool
	Actions  []decide.Action
}

// Do performs the actions that write and returns one result per performed action. They begin in the order of decide.InOrder; what must
// wait for another is decided before. Failures of one object never stop its neighbours, but for two cases. Workloads begin when the objects
// that pods may refer to are through, and not if theirs refer to one that turned out to be another's. Deletions begin when everything
// else is through, and what the plan no longer has is deleted only if nothing failed or is refused, as Helm and Flux do. A plan that cannot
// be carried out must not take away what runs.
func (a *Actor) Do(ctx context.Context, req Request) []Result {
	a.once.Do(func() { a.crds = make(chan struct{}, crdSlots) })
	var changes, deletions []decide.Action
	for _, action := range req.Actions {
		switch {
		case action.Verb == decide.Delete:
			deletions = append(deletions, action)
		case action.Writes():
			changes = append(changes, action)
		}
	}
	results := a.change(ctx, req, changes)
	if req.Refused || slices.ContainsFunc(results, Result.failed) {
		req.Refused, deletions = true, slices.DeleteFunc(deletions, prunesObserved)
	}
	return append(results, a.batch(ctx, req, deletions, atOnce(deletions))...)
}

// change creates and applies, and begins with what pods may refer to.
func (a *Actor) change(ctx context.Context, req Request, changes []decide.Action) []Result {
	referred, limit := decide.InOrder(changes), atOnce(changes)
	results := a.batch(ctx, req, changes[:referred], limit)
	return append(results, a.batch(ctx, req, withoutReferrers(changes[referred:], results), limit)...)
}

// withoutReferrers leaves out the workloads whose pods refer to an object that a write found to be another's. Only the write can tell, since
// the caches have no objects without MLKeeper's labels.
func withoutReferrers(later []decide.Action, results []Result) []decide.Action {
	all := slices.Clone(later)
	for _, r := range results {
		if r.Problem != nil && r.Problem.Reason == ReasonConflict {
			all = append(all, decide.Action{Verb: decide.Conflict, Key: r.Action.Key})
		}
	}
	decide.HoldReferrers(all)
	return slices.DeleteFunc(all, func(action decide.Action) bool { return !action.Writes() })
}

// prunesObserved says that a deletion is of an observed child that the plan no longer has. One that no watch shows is read all the same: a status may
// name what was never a child, and must not go on to do so.
func prunesObserved(deletion decide.Action) bool {
	return deletion.Object.Desired == nil && deletion.ResourceVersion != ""
}

func (r Result) failed() bool { return r.Err != nil || r.Problem != nil }

// atOnce is how many writes of a stack are in flight.
func atOnce(writes []decide.Action) int {
	if len(writes) > fewWrites {
		return parallelWrites
	}
	return 1
}

// batch performs writes in their order, at most limit at once.
func (a *Actor) batch(ctx context.Context, req Request, actions []decide.Action, limit int) []Result {
	results := make([]Result, len(actions))
	failures := parallel.Each(ctx, limit, actions, func(ctx context.Context, i int, action decide.Action) error {
		results[i] = a.one(ctx, req, action)
		return nil
	})
	for i, err := range failures {
		if err != nil { // It panicked, or has not begun.
			results[i] = Result{Action: actions[i], Err: err}
		}
	}
	return results
}

func (a *Actor) one(ctx context.Context, req Request, action decide.Action) Result {
	if action.Key.Kind == "CustomResourceDefinition" && action.Key.Group == "apiextensions.k8s.io" {
		select {
		case a.crds <- struct{}{}:
			defer func() { <-a.crds }()
		case <-ctx.Done():
			return Result{Action: action, Err: ctx.Err()}
		}
	}
	res := Result{Action: action}
	gvk := a.gvkOf(action)
	client, err := a.ResourceAs(req.ActAs, gvk, action.Key.Namespace)
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
		a.prune(ctx, req, client, &res)
	}
	if res.Err != nil {
		res.Problem, res.Err = classify(action.Key, gvk, req.ActAs, res.Err)
	}
	if res.Problem != nil && res.Problem.Reason == ReasonImmutable && res.Action.Adopted && action.Verb == decide.Create {
		// No watch tells that an object is deleted that could not be adopted.
		res.Problem.Class = plan.Blocked
	}
	if res.failed() && a.CountFailed != nil {
		a.CountFailed(res.Action.Key, res.cause())
	}
	if res.Wrote && a.Count != nil {
		a.Count(res.Action.Key, res.Action.Verb, res.Action.Reason)
	}
	return res
}

// gvkOf returns the kind in the version that an action is about. An object that the plan no longer has is deleted in any served version: an
// upgrade of the cluster may have removed the one in which it was written.
func (a *Actor) gvkOf(action decide.Action) schema.GroupVersionKind {
	if action.Object.Desired != nil {
		return action.Object.Desired.GroupVersionKind()
	}
	gvk, _ := a.servedVersion(action.Key.WithVersion(action.Version))
	return gvk
}

// servedVersion returns a kind in a version that is served: the given one, or else the preferred one. served is false, and the version the
// given one, if there is none.
func (a *Actor) servedVersion(gvk schema.GroupVersionKind) (in schema.GroupVersionKind, served bool) {
	versions := a.Catalog.Versions(gvk.GroupKind())
	if len(versions) > 0 && !slices.Contains(versions, gvk.Version) {
		gvk.Version = versions[0]
	}
	return gvk, len(versions) > 0
}

// cause is why a write failed: the reason of the problem, else what kind of answer the API server gave.
func (r Result) cause() string {
	if r.Problem != nil {
		return r.Problem.Reason
	}
	return apistatus.Cause(r.Err)
}

func (a *Actor) resource(gvk schema.GroupVersionKind, namespace string) (dynamic.ResourceInterface, error) {
	return a.ResourceAs("", gvk, namespace)
}

// Acting is the client with the rights of a user; the operator's own where the name is empty.
func (a *Actor) Acting(user string) (dynamic.Interface, error) {
	if user == "" {
		return a.Client, nil
	}
	client, err := a.As(user)
	if err != nil {
		return nil, fmt.Errorf("act as %s: %w", user, err)
	}
	return client, nil
}

// ResourceAs is the client of a resource with the rights of a user.
func (a *Actor) ResourceAs(user string, gvk schema.GroupVersionKind, namespace string) (dynamic.ResourceInterface, error) {
	client, err := a.Acting(user)
	if err != nil {
		return nil, err
	}
	mapping, ok := a.Catalog.Lookup(gvk)
	if !ok {
		return nil, fmt.Errorf("the API of %s is not served", gvk)
	}
	if mapping.Namespaced {
		return client.Resource(mapping.Resource).Namespace(namespace), nil
	}
	return client.Resource(mapping.Resource), nil
}

func (a *Actor) wrote(req Request, res *Result, live *unstructured.Unstructured) {
	res.Wrote = true
	res.Observed = observe.From(live, health.NeedsStatus(res.Action.Key.GroupKind))
	a.Memory.Wrote(req.Stack.Controller, res.Observed)
}
