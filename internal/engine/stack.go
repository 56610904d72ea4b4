package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/adoption"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/status"
	"mlkeeper.dev/internal/engine/watch"
	"mlkeeper.dev/internal/parallel"
)

// stacks reconciles the custom resources of one kind.
type stacks[C client.Object, F any] struct {
	*Engine
	def   controller.Definition[C]
	sys   controller.Controller[C, F]
	queue *queue
	wires []*wireRunner
	// adopter takes custom resources over from a previous operator.
	adopter adoption.Adopter
	// budgets bound what the cache keeps of custom resources.
	budgets budgets

	mu sync.Mutex
	// pendingReady holds custom resources whose Ready is about to be written, for their wires.
	pendingReady map[client.ObjectKey]*pendingReady[C]
	// children are the watches on the kinds that users choose; nil where the definition names every kind.
	children *watch.DynamicChildren
	// groups are those of whose APIs the controller asks by version.
	groups map[string]bool
	// allKinds says that the controller asks for all kinds.
	allKinds bool
	// conflictWaiters holds who would have an object that belongs to another custom resource, to be enqueued when it changes.
	conflictWaiters map[plan.Key]map[client.ObjectKey]bool
	// states holds what is remembered of each custom resource between reconciles.
	states map[client.ObjectKey]*reconcileState
	// unconfirmed are those that were listed when the watch began, or created long before it told of them, and were not read live since.
	unconfirmed map[client.ObjectKey]bool
}

// Register adds a controller to the engine. It is called before the manager starts.
func Register[C client.Object, F any](e *Engine, def controller.Definition[C], sys controller.Controller[C, F]) error {
	s := &stacks[C, F]{
		Engine: e, def: def, sys: sys, states: map[client.ObjectKey]*reconcileState{},
		pendingReady:    map[client.ObjectKey]*pendingReady[C]{},
		conflictWaiters: map[plan.Key]map[client.ObjectKey]bool{}, unconfirmed: map[client.ObjectKey]bool{},
	}
	if def.Resource == "" {
		return fmt.Errorf("register controller %s: its definition does not name the resource of %s", def.Controller, def.GVK.Kind)
	}
	q, err := newController(e, strings.ToLower(def.GVK.Kind), e.Concurrency, s, s.enqueueAll)
	if err != nil {
		return fmt.Errorf("register controller %s: %w", def.Controller, err)
	}
	s.queue, s.adopter = q, s.newAdopter()
	s.followEvictions()
	e.informers.WatchResources(def.GVK, s.decode, s.resourceChanged, nil)
	e.informers.WatchResources(def.GVK, nil, s.sized, nil)
	for _, shared := range def.Shared {
		e.informers.ShareWatch(shared.GVK, shared.Name)
	}
	for _, gvk := range def.ConfirmAbsence {
		e.informers.ConfirmAbsence(def.GVK.GroupKind(), gvk)
	}
	for _, gvk := range def.Children {
		e.informers.WatchChildren(gvk, def.Controller, s.childChanged)
	}
	if def.AnyChildren {
		s.children = watch.NewDynamicChildren(e.informers, def.Controller, def.Children, s.childChanged)
	}
	for _, wire := range def.Wires {
		runner, err := newWireRunner(e, wire, s.namespaces, s.aliveIn, s.wired, s.enqueueNamespace, s.acknowledged)
		if err != nil {
			return err
		}
		s.wires = append(s.wires, runner)
	}
	e.add(def.GVK.GroupKind(), s)
	return nil
}

func (s *stacks[C, F]) decode(u *unstructured.Unstructured) (metav1.Object, error) {
	s.kept().Reduce(u)
	if size := sizeOfResource(u.Object); !s.budgets.admit(u, size) {
		return nil, &tooLargeError{namespace: u.GetNamespace(), size: size}
	}
	cr := s.def.New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, cr); err != nil {
		s.budgets.drop(u) // Little is kept of it.
		return nil, fmt.Errorf("decode %s %s/%s: %w", s.def.GVK.Kind, u.GetNamespace(), u.GetName(), err)
	}
	return cr, nil
}

// waitForConflicts remembers that a custom resource would have the objects, which belong to another one now; it forgets what the
// custom resource ceded before.
func (s *stacks[C, F]) waitForConflicts(key client.ObjectKey, state *reconcileState, objects []plan.Key) {
	if len(objects) == 0 && len(state.conflicts) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range state.conflicts {
		delete(s.conflictWaiters[o], key)
		if len(s.conflictWaiters[o]) == 0 {
			delete(s.conflictWaiters, o)
		}
	}
	state.conflicts = objects
	for _, o := range objects {
		if s.conflictWaiters[o] == nil {
			s.conflictWaiters[o] = map[client.ObjectKey]bool{}
		}
		s.conflictWaiters[o][key] = true
	}
}

// conflicts reports, after the writes of a pass, the objects that belong to others, the fields that are left to others, and what was
// left out of an object so that the API server took it.
func (s *stacks[C, F]) conflicts(p *reconciliation[C, F]) {
	var conflicts []plan.Key
	for _, a := range p.actions {
		if a.Verb == decide.Conflict {
			p.problems = append(p.problems, *act.Conflict(a.Key, a.Detail))
			p.blocked = true
			conflicts = append(conflicts, a.Key)
		}
		e, ok := p.entries[a.Key]
		if !ok || e.AppliedHash != a.Object.Digest {
			continue
		}
		for _, f := range act.CededOf(e.LeftOut) {
			p.ceded = append(p.ceded, status.CededField{Object: a.Key, Field: f})
		}
		for _, w := range e.LeftOut {
			if isLeftOut(w) {
				p.warnings = append(p.warnings, a.Key.String()+": "+w)
			}
		}
	}
	s.waitForConflicts(p.key, p.state, conflicts)
}

func (s *stacks[C, F]) serves(gk schema.GroupKind) bool {
	if gk == s.def.GVK.GroupKind() {
		return true
	}
	for _, gvk := range s.def.Watched() {
		if gvk.GroupKind() == gk {
			return true
		}
	}
	if s.def.AnyChildren && s.children.Has(gk) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.allKinds || s.groups[gk.Group]
}

func (s *stacks[C, F]) alive(namespace, name string) (uid string, found, known bool) {
	gk := s.def.GVK.GroupKind()
	synced := s.informers.ResourceSynced(gk)
	o, ok := s.informers.Resource(gk, namespace, name)
	if !ok {
		return "", false, synced
	}
	return string(o.GetUID()), true, true
}

// groupResource is the name of the kind's CRD.
func (s *stacks[C, F]) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: s.def.GVK.Group, Resource: s.def.Resource}
}

// controllerName is the name of the controller.
func (s *stacks[C, F]) controllerName() string { return s.def.Controller }

// current returns a copy of the custom resource.
func (s *stacks[C, F]) current(key client.ObjectKey) (cr C, bad *watch.Undecodable, found bool) {
	o, _ := s.informers.Resource(s.def.GVK.GroupKind(), key.Namespace, key.Name)
	if bad, isBad := o.(*watch.Undecodable); isBad {
		return cr, bad, true
	}
	cr, found = o.(C)
	if !found {
		return cr, nil, false
	}
	return cr.DeepCopyObject().(C), nil, true
}

// Reconcile runs the loop once for one custom resource, unless nothing is to be done for it.
func (s *stacks[C, F]) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	key := req.NamespacedName
	unconfirmed := s.isUnconfirmed(key)
	cr, bad, found := s.current(key)
	switch {
	case !found:
		s.dropUnconfirmed(key)
		s.budgets.dropName(key)
		s.forget(key)
		return reconcile.Result{}, nil
	case bad != nil:
		s.meet(key, bad.GetUID())
	default:
		s.meet(key, cr.GetUID())
	}
	if bad != nil {
		s.releaseRollout(key)
		return s.counted(key, func() (reconcile.Result, error) { return s.undecodable(ctx, bad) })
	}
	deleting, adopts := cr.GetDeletionTimestamp() != nil, s.adopts(cr)
	if deleting {
		s.releaseRollout(key)
	}
	if deleting && !adopts {
		s.metrics.gaveUp(s.def.GVK.Kind, key)
	}
	if !adopts && (deleting || s.inSyncAtStart(cr)) {
		return reconcile.Result{}, nil
	}
	if rest := s.postponed(req, cr); rest > 0 {
		return reconcile.Result{RequeueAfter: rest}, nil
	}
	p := s.newReconciliation(cr)
	p.unconfirmed = unconfirmed
	return s.attempt(ctx, p, adopts)
}

// attempt does the steps of a reconcile, or reports that the custom resource is suspended.
func (s *stacks[C, F]) attempt(ctx context.Context, p *reconciliation[C, F], adopts bool) (reconcile.Result, error) {
	return s.counted(p.key, func() (reconcile.Result, error) {
		if s.isSuspended(p.cr) && !adopts {
			return s.suspended(ctx, p)
		}
		return s.run(ctx, p, adopts)
	})
}

// postponed returns how long a custom resource that failed waits for its next attempt. It is not tried again by every event that comes
// meanwhile, but at once when the user changed or asked for something: what failed was something else, and neither that attempt nor an event
// after it waits for it.
func (s *stacks[C, F]) postponed(req reconcile.Request, cr C) time.Duration {
	state, asked := s.stateOf(req.NamespacedName), userRequest(cr)
	if state.tried != asked {
		state.tried = asked
		s.queue.backoff.Drop(req)
	}
	return s.queue.backoff.Remaining(req)
}

// run does the steps from gather to report; adopts says that the finalizers of a previous operator are to be removed. An error of any step
// gets into the status once it has lasted.
func (s *stacks[C, F]) run(ctx context.Context, p *reconciliation[C, F], adopts bool) (reconcile.Result, error) {
	// Not every reconcile comes to its report.
	defer func() { p.state.refs = p.reader.Read(p.state.refs) }()
	var result reconcile.Result
	var done bool
	err := s.beforeReport(ctx, func(ctx context.Context) (err error) {
		result, done, err = s.apply(ctx, p, adopts)
		return err
	})
	switch {
	case errors.Is(err, errStaleCache):
		return reconcile.Result{}, nil
	case err != nil && adopts && !p.rendered && p.cr.GetDeletionTimestamp() != nil && s.failsForLong(p.key):
		// A deletion must not hang for what may never be read.
		return reconcile.Result{}, s.adoptUnrendered(ctx, p.before)
	case err != nil:
		return s.fail(ctx, p, err)
	case done:
		return result, nil
	}
	return s.report(ctx, p)
}

// beforeReport bounds the steps that come before the report, so that there is time left to tell of them, and returns a panic of theirs as an
// error.
func (s *stacks[C, F]) beforeReport(ctx context.Context, steps func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout-reportTime)
	defer cancel()
	return parallel.Recovered(ctx, steps)
}

// apply does the steps before the report. done says that the reconcile ends with the result, since there is nothing to report. It fails with
// errStaleCache where the custom resource is not any more what it was read as.
func (s *stacks[C, F]) apply(ctx context.Context, p *reconciliation[C, F], adopts bool) (result reconcile.Result, done bool, err error) {
	if done, err := s.prepare(ctx, p, adopts); err != nil || done {
		return reconcile.Result{}, done, err
	}
	if err := s.resolveOwners(ctx, p); err != nil {
		return reconcile.Result{}, false, err
	}
	if p.opening() {
		if rest := s.holdOpening(p.state, p.reader.Opening()); rest > 0 {
			// The watch enqueues the custom resource once it is open: there is nothing to report yet.
			p.state.refs = p.reader.Done(p.state.refs)
			return reconcile.Result{RequeueAfter: rest}, true, nil
		}
	}
	s.watchTakenNames(ctx, p)
	s.decide(p)
	if err := s.recheck(ctx, p); err != nil {
		return reconcile.Result{}, false, err
	}
	s.act(ctx, p)
	return reconcile.Result{}, false, nil
}

// jobPanicked is the problem of a custom resource one of whose background jobs panicked.
var jobPanicked = plan.Problem{
	Class: plan.Waiting, Reason: "InternalError", Message: "a panic of MLKeeper ended what it does in the background for this resource; " +
		"the log has the stack",
	Remedy: "report it as a bug; it is tried again with growing pauses",
}

// What follows the message of what is being fetched, and its remedy, where a background job has waited for long.
const (
	waitsLong  = "; it has waited for its turn for minutes, since others fetch and render, too"
	sharesMore = "wait: its turn comes, and nothing of it is lost. It comes sooner where an administrator raises --work-memory, or --source-bytes"
)

// tellWait has the user learn why what is being fetched takes long.
func (p *reconciliation[C, F]) tellWait() {
	if !p.reader.Waits() {
		return
	}
	for i := range p.problems {
		if problem := &p.problems[i]; problem.Brief && problem.Reason == plan.ReasonFetching {
			problem.Message, problem.Remedy = problem.Message+waitsLong, sharesMore
		}
	}
}

// prepare renders the plan, and adopts the custom resource if adopts says so. done says that the reconcile ends.
func (s *stacks[C, F]) prepare(ctx context.Context, p *reconciliation[C, F], adopts bool) (done bool, err error) {
	if err := s.render(ctx, p); err != nil {
		return true, err
	}
	p.rendered = true
	p.tellWait()
	if adopts {
		return s.adopt(ctx, p)
	}
	return false, nil
}

// render gathers facts and renders the plan. It writes nothing.
func (s *stacks[C, F]) render(ctx context.Context, p *reconciliation[C, F]) error {
	p.cache, p.evictions = s.lastPlan(p.state)
	facts, err := s.sys.Gather(ctx, p.reader, p.cr)
	if p.reader.Panicked() {
		p.problems = append(p.problems, jobPanicked)
	}
	if unseen := p.reader.Unseen(); unseen != nil && err == nil {
		err = *unseen // What a controller concludes from a child that it does not see may be wrong.
	}
	var problem plan.Problem
	switch {
	case errors.As(err, &problem):
		p.problems = append(p.problems, problem)
		p.gatherFailed, p.blocked = true, problem.Class == plan.Blocked
		return nil
	case err != nil:
		return fmt.Errorf("gather: %w", err)
	}
	p.facts = facts
	s.renderCached(p)
	p.problems = append(p.problems, p.plan.Problems...)
	p.blocked = slices.ContainsFunc(p.problems, func(problem plan.Problem) bool { return problem.Class == plan.Blocked })
	return nil
}
