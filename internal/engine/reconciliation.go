package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/status"
	"mlkeeper.dev/internal/engine/watch"
)

// reconciliation is one reconcile of one custom resource. Each field says which step sets it.
type reconciliation[C client.Object, F any] struct {
	key    client.ObjectKey
	before C // The custom resource as read; set at the start and never changed.
	cr     C // A copy whose status report fills.
	stack  plan.Stack
	state  *reconcileState
	reader *reader
	// unconfirmed says that the custom resource as read may be out of date; recheckLive ends it.
	unconfirmed bool

	facts        F         // Set by prepare.
	plan         plan.Plan // Set by prepare.
	pruned       bool      // Set by decide: what the plan no longer has was judged too.
	gatherFailed bool      // Set by prepare when gather found a problem, so that there is no plan.

	inventories []*keeper.Inventory                // Set by resolveOwners; empty for a stack that owns its children directly.
	owners      []plan.Owner                       // Set by resolveOwners.
	stamped     [][]plan.Stamped                   // Set by resolveOwners, by stage.
	ledger      map[plan.Key]keeper.InventoryEntry // Set by resolveOwners from status or Inventories; updated by act.
	actions     []decide.Action                    // Set by decide.
	results     map[plan.Key]act.Result            // Set by act.
	nextAt      time.Time                          // Set by decide and act: when to look again, if nothing enqueues it before.
	blocked     bool                               // Set by prepare and act: something other than a write is blocked.
	problems    []plan.Problem                     // Added to by prepare and act.
	warnings    []string                           // Added to by decide and act.
	yielded     []status.CededField                // Set by act.
	held        string                             // Set by decide: what a rollout waits for; empty when none waits.
	transient   error                              // Set by act.
	awaits      bool                               // Set by summarize: the outcomes of the wires were not complete.
	lags        bool                               // Set by report: it waits for nothing but controllers that have yet to look at their objects.
	failed      bool                               // Set by report: what was asked for has failed.
	informative map[plan.Key]bool                  // Set by resolveOwners.
}

// staleRetry is when an object is judged again that had changed by the time of its deletion.
const staleRetry = time.Second

// requeueAt asks for another pass at a time, or before.
func (p *reconciliation[C, F]) requeueAt(at time.Time) {
	if p.nextAt.IsZero() || at.Before(p.nextAt) {
		p.nextAt = at
	}
}

func (s *stacks[C, F]) newReconciliation(cr C) *reconciliation[C, F] {
	key := client.ObjectKeyFromObject(cr)
	p := &reconciliation[C, F]{
		key: key, before: cr, cr: cr.DeepCopyObject().(C), state: s.stateOf(key),
		stack:  s.stackOf(cr),
		ledger: map[plan.Key]keeper.InventoryEntry{}, results: map[plan.Key]act.Result{},
		informative: map[plan.Key]bool{},
	}
	if len(*s.def.Common(cr).Conditions) == 0 {
		p.state.fresh = true
	}
	p.reader = &reader{
		engine: s.Engine, controller: s.def.Controller, gk: s.def.GVK.GroupKind(), cr: cr,
		referrer: watch.Referrer{Kind: s.def.GVK.GroupKind(), Namespace: key.Namespace, Name: key.Name},
		stack:    p.stack, made: s.madeBy(cr), asks: s.watchGroup,
	}
	return p
}

// stackOf identifies the children of a custom resource.
func (s *stacks[C, F]) stackOf(cr metav1.Object) plan.Stack {
	return plan.Stack{
		Controller: s.def.Controller, GVK: s.def.GVK, Namespace: cr.GetNamespace(), Name: cr.GetName(), UID: cr.GetUID(),
	}
}

// madeBy says of an object whether it was recorded as a child of the custom resource.
func (s *stacks[C, F]) madeBy(cr C) func(plan.Key) bool {
	ledger := sync.OnceValue(func() map[plan.Key]keeper.InventoryEntry {
		return recorded(*s.def.Common(cr).Ledger, s.kept.of(string(cr.GetUID())))
	})
	return func(key plan.Key) bool { return ledger()[key].UID != "" }
}

// recorded is the ledger of a custom resource: what its status holds, and what its Inventories do.
func recorded(ledger []keeper.InventoryEntry, inventories []*keeper.Inventory) map[plan.Key]keeper.InventoryEntry {
	out := ledgerOf(inventories)
	for _, e := range ledger {
		if _, listed := out[keyOf(e)]; !listed {
			out[keyOf(e)] = e
		}
	}
	return out
}

// ownersOf are whom the children of a custom resource may belong to: itself, and its Inventories.
func (s *stacks[C, F]) ownersOf(cr C, inventories []*keeper.Inventory) []plan.Owner {
	out := []plan.Owner{s.self(cr)}
	for _, inv := range inventories {
		out = append(out, ownerOf(inv))
	}
	return out
}

// resolveOwners settles who owns the children, makes the Inventories where the custom resource cannot, stamps every object, and
// loads what is remembered of earlier writes.
func (s *stacks[C, F]) resolveOwners(ctx context.Context, p *reconciliation[C, F]) error {
	ledger := s.def.Common(p.cr).Ledger
	if p.state.pendingStatus != nil {
		ledger = p.state.pendingStatus
	}
	existing := s.kept.of(string(p.cr.GetUID()))
	if len(existing) > 0 || s.kept.needed(s.catalog, p.stack, p.plan) || s.incomplete(p.plan) {
		// Once: the Inventories are written side by side.
		confirm := sync.OnceValue(func() error { return s.confirm(ctx, p) })
		var err error
		if p.inventories, err = s.kept.ensure(ctx, p.stack, p.plan, existing, confirm); err != nil {
			return fmt.Errorf("write the Inventories: %w", err)
		}
	}
	p.owners, p.ledger = s.ownersOf(p.cr, p.inventories), recorded(*ledger, p.inventories)
	if len(p.inventories) > 0 {
		for _, e := range p.state.pendingEntries {
			p.ledger[keyOf(e)] = e
		}
	}
	s.watchRecorded(p.ledger)
	return s.stamp(p)
}

// stamp gives the objects of the plan the engine's marks, or takes those of the pass before where nothing is different.
func (s *stacks[C, F]) stamp(p *reconciliation[C, F]) error {
	last := p.state.renderCache
	if last != nil && last.stamped != nil && slices.Equal(last.owners, p.owners) {
		p.stamped = last.stamped
	} else if err := s.stampAnew(p); err != nil {
		return err
	}
	if last != nil {
		last.owners, last.stamped = p.owners, p.stamped
	}
	for _, stage := range p.stamped {
		for _, o := range stage {
			p.informative[o.Key] = o.Informational
			s.follow(p, o)
			s.watchKind(o.Desired.GroupVersionKind())
		}
	}
	return nil
}

// follow has the ledger say whether an object is to outlive its custom resource as the plan says it now, and whether a Job has
// completed: that alone changes nothing about what is declared, so that no write would tell.
func (s *stacks[C, F]) follow(p *reconciliation[C, F], o plan.Stamped) {
	e, recorded := p.ledger[o.Key]
	if !recorded {
		return
	}
	seen, found := s.informers.Child(s.def.Controller, o.Key)
	if found {
		e.Policy = policyOf(o, seen)
		e.Completed = e.Completed || seen.Completed && seen.UID == e.UID && seen.Digest() == e.Digest
	} else {
		e.Completed = s.completed(p.state, o.Key, e.UID, e.Completed)
	}
	p.ledger[o.Key] = e
}

func (s *stacks[C, F]) stampAnew(p *reconciliation[C, F]) error {
	for i, stage := range p.plan.Stages {
		owner := p.owners[0]
		if len(p.inventories) > 0 {
			owner = p.owners[i+1]
		}
		stamped := make([]plan.Stamped, 0, len(stage.Objects))
		for _, o := range stage.Objects {
			st, err := plan.Stamp(o, p.stack, owner, i)
			if err != nil {
				return err
			}
			stamped = append(stamped, st)
		}
		p.stamped = append(p.stamped, stamped)
	}
	return nil
}

// decide gathers what the caches know of every object and lets the pure judgement decide.
func (s *stacks[C, F]) decide(p *reconciliation[C, F]) {
	if p.gatherFailed {
		return
	}
	p.pruned = len(p.problems) == 0
	in := decide.Input{Stack: p.stack, Owners: p.owners, Prune: p.pruned}
	desired := map[plan.Key]bool{}
	for _, key := range p.plan.Keep {
		desired[key] = true
	}
	for i, stage := range p.plan.Stages {
		if stage.Suspended && i < len(p.inventories) {
			for _, e := range p.inventories[i].Spec.Objects {
				desired[keyOf(e)] = true
			}
		}
		st := decide.Stage{Name: stage.Name, WaitHealthy: stage.WaitHealthy}
		for _, o := range p.stamped[i] {
			desired[o.Key] = true
			st.Items = append(st.Items, s.item(p, o))
		}
		st.TimedOut = s.gateTimedOut(p, stage, st)
		in.Stages = append(in.Stages, st)
	}
	for i := range in.Stages {
		s.hold(p, in, i)
	}
	in.Extras = s.extras(p, desired)
	p.actions = decide.Decide(in)
	explainUnwatched(p.actions, func(gk schema.GroupKind) error { return s.informers.ChildWatchError(gk, s.def.Controller) })
	leaveSuspended(p.plan.Stages, p.actions)
	s.holdRejected(p)
	s.holdRecreations(p)
	s.holdRollout(p)
}

// leaveSuspended takes the writes of suspended stages out of the decisions.
func leaveSuspended(stages []plan.Stage, actions []decide.Action) {
	for i := range actions {
		a := &actions[i]
		if a.Writes() && a.Object.Desired != nil && stages[a.Object.Stage].Suspended {
			a.Verb, a.Reason = decide.Leave, decide.ReasonSuspended
		}
	}
}

// hold says of the objects of a stage what they wait for before they are made: the stages that theirs comes after, the server
// behind a webhook, and the API server where it would sleep over each for longer than is left to wait.
func (s *stacks[C, F]) hold(p *reconciliation[C, F], in decide.Input, i int) {
	stage := p.plan.Stages[i]
	held := stage.Hold
	if held == "" {
		if waits := decide.Awaits(in, stage.After); !s.timedOut(p, "the start of stage "+stage.Name, waits, stage.Timeout) {
			held = waits
		}
	}
	for j := range in.Stages[i].Items {
		item := &in.Stages[i].Items[j]
		waits := decide.ServerOf(in.Stages, *item)
		if !s.timedOut(p, item.Key.String(), waits, stage.Timeout) {
			item.Waits = waits
		}
		if held != "" {
			item.Waits = held
		}
		if from := s.catalog.AcceptsCreatesAt(item.Key.GroupKind); item.Waits == "" && item.Observed == nil && from.After(s.Clock.Now()) {
			item.Waits = "the definition of " + item.Key.Kind + ", which is only just established"
			p.requeueAt(from)
		}
	}
}

func (s *stacks[C, F]) item(p *reconciliation[C, F], o plan.Stamped) decide.Item {
	item := decide.Item{Stamped: o}
	if e, ok := p.ledger[o.Key]; ok {
		item.Known = &e
	}
	_, item.Served = s.catalog.Lookup(o.Desired.GroupVersionKind())
	item.Synced = s.informers.ChildSynced(o.Key.GroupKind, s.def.Controller)
	if seen := s.child(p, o.Key); seen != nil {
		item.Observed = seen
		item.Adopt = wantsAdoption(p.cr) && s.abandoned(seen)
		item.Held = s.heldByAnother(p, seen)
	}
	return item
}

// abandoned says that an object that we made has no owner any more: it was kept when its custom resource went.
func (s *stacks[C, F]) abandoned(seen *observe.Object) bool {
	if metav1.GetControllerOfNoCopy(&seen.ObjectMeta) != nil {
		return false
	}
	namespace, name, ok := parseOwner(seen.Annotations[keeper.OwnerAnnotation], s.def.GVK.GroupKind())
	if !ok {
		return false
	}
	_, found, known := s.alive(namespace, name)
	return known && !found
}

// heldByAnother says that the marks of an object name another custom resource that exists, or may.
func (s *stacks[C, F]) heldByAnother(p *reconciliation[C, F], seen *observe.Object) bool {
	id := seen.Annotations[keeper.OwnerAnnotation]
	if id == "" || id == p.stack.ID() {
		return false
	}
	namespace, name, ok := parseOwner(id, s.def.GVK.GroupKind())
	if !ok {
		return true
	}
	_, found, known := s.alive(namespace, name)
	return found || !known
}

// wantsAdoption says that the owner of a custom resource allows taking over objects that nobody owns.
func wantsAdoption(cr client.Object) bool {
	return cr.GetAnnotations()[keeper.AdoptAnnotation] == "true"
}

// gateTimedOut says that the gate of a stage has been closed for its timeout.
func (s *stacks[C, F]) gateTimedOut(p *reconciliation[C, F], stage plan.Stage, st decide.Stage) bool {
	waitsFor := decide.ClosedBy(decide.Input{Stack: p.stack, Owners: p.owners}, st)
	return s.timedOut(p, "stage "+stage.Name, waitsFor, stage.Timeout)
}

// timedOut keeps since when a gate holds back what comes after it; one that has been closed for its timeout opens with
// a warning (law 14).
func (s *stacks[C, F]) timedOut(p *reconciliation[C, F], gate, waitsFor string, timeout time.Duration) bool {
	if waitsFor == "" {
		delete(p.state.gates, gate)
		return false
	}
	now := s.Clock.Now()
	since, ok := p.state.gates[gate]
	if !ok {
		since = now
		p.state.gates[gate] = now
	}
	if timeout == 0 {
		timeout = plan.DefaultGateTimeout
	}
	until := since.Add(timeout)
	if now.Before(until) {
		p.requeueAt(until)
		return false
	}
	p.warnings = append(p.warnings, fmt.Sprintf(
		"%s still waits for %s after %s; what comes after it goes on without it", gate, waitsFor, timeout))
	return true
}

// extras are objects that MLKeeper made for this stack and that the plan no longer has: from the ledger or Inventory,
// and from the cache, since a crash may have come between a write and its record.
func (s *stacks[C, F]) extras(p *reconciliation[C, F], desired map[plan.Key]bool) []decide.Extra {
	var out []decide.Extra
	taken, listed := map[plan.Key]bool{}, ledgerOf(p.inventories)
	for key, entry := range p.ledger {
		if desired[key] {
			continue
		}
		if _, ours := listed[key]; !ours && !s.reaches(p.stack, key) {
			delete(p.ledger, key) // Somebody else wrote it into the status.
			continue
		}
		taken[key] = true
		x := decide.Extra{Entry: entry, Observed: s.child(p, key)}
		_, served := s.catalog.Lookup(key.WithVersion(entry.Version))
		x.Gone = x.Observed == nil && (!served || p.state.deleted[key] == entry.UID)
		out = append(out, x)
	}
	for _, seen := range s.informers.ChildrenOfStack(s.def.Controller, p.stack.Hash()) {
		if !desired[seen.Key] && !taken[seen.Key] {
			out = append(out, decide.Extra{Observed: p.state.going(seen, s.Clock.Now())})
		}
	}
	return out
}

// reaches says that an entry of a status may be about a child: it has a kind of the controller's, and is where the custom resource
// can own objects. Whoever may write the status of his own custom resource names what he likes there; an Inventory, which lists
// everything else, only cluster administrators can write.
func (s *stacks[C, F]) reaches(stack plan.Stack, key plan.Key) bool {
	if stack.Namespace != "" && key.Namespace != stack.Namespace {
		return false
	}
	return s.def.AnyChildren || slices.ContainsFunc(s.def.Children, func(gvk schema.GroupVersionKind) bool {
		return gvk.GroupKind() == key.GroupKind
	})
}

// act performs the decisions and keeps what the writes answered.
func (s *stacks[C, F]) act(ctx context.Context, p *reconciliation[C, F]) {
	if p.gatherFailed {
		return
	}
	results := s.actor.Do(ctx, act.Request{
		Stack: p.stack, Owners: p.owners, Actions: p.actions, ActAs: p.plan.ActAs, Former: p.plan.Former,
		Adopt: wantsAdoption(p.cr), FormerManagers: s.def.FormerManagers,
	})
	for _, r := range results {
		p.results[r.Action.Key] = r
		s.recordRejection(p, r)
		s.countRecreation(p, r)
		switch {
		case r.Err != nil:
			p.transient = r.Err
		case r.Problem != nil:
			p.problems = append(p.problems, *r.Problem)
			if r.Problem.Reason == act.ReasonConflict && len(p.inventories) == 0 {
				// Another's object has the name. The status, which whoever may write it can forge, must not call it a child.
				delete(p.ledger, r.Action.Key)
			}
		case r.Stale:
			// What was judged has changed meanwhile. Its event may have come before this pass was over.
			p.requeueAt(s.Clock.Now().Add(staleRetry))
		case r.Observed != nil:
			p.ledger[r.Action.Key] = entryOf(r.Action.Object, r.Observed, r.Warnings)
		case r.Action.Object.Desired != nil:
			// Deleted, to be made again.
			p.state.deleted[r.Action.Key] = r.Action.UID
		case r.Wrote:
			p.state.deleted[r.Action.Key] = r.Action.UID
			if r.Action.ResourceVersion == "" {
				// No watch shows it, nor will one tell that it is gone.
				p.requeueAt(s.Clock.Now().Add(staleRetry))
			}
		default:
			// There was nothing left to delete, of which no watch tells.
			delete(p.ledger, r.Action.Key)
			s.completed(p.state, r.Action.Key, "", true)
		}
		if r.Wrote && r.Action.Reason == decide.ReasonDrift {
			s.metrics.repaired(r.Action.Key)
		}
	}
	s.conflicts(p)
}

// child is what is known of a child: as the caches have it, or as our own writes left it (law 12).
func (s *stacks[C, F]) child(p *reconciliation[C, F], key plan.Key) *observe.Object {
	seen, ok := s.informers.Child(s.def.Controller, key)
	if !ok {
		return nil
	}
	return p.state.going(seen, s.Clock.Now())
}

func ownedByAnother(key plan.Key) plan.Problem {
	return plan.Problem{
		Class: plan.Blocked, Reason: act.ReasonConflict, Field: "metadata.name", Value: key.Name,
		Message: key.String() + " was made for another custom resource; it is left alone",
		Remedy: "remove that object; to take it over with its data, when its custom resource is gone, annotate this one " +
			"with " + keeper.AdoptAnnotation + "=true",
	}
}

// state tells what is known of one object after this pass's writes.
func (s *stacks[C, F]) objectState(p *reconciliation[C, F], a decide.Action) controller.State {
	var seen *observe.Object
	if r, ok := p.results[a.Key]; ok && r.Observed != nil {
		seen = r.Observed
	} else if a.Verb != decide.Conflict {
		seen = s.child(p, a.Key)
	}
	if seen == nil {
		return controller.State{Current: a.Reason == decide.ReasonCompleted}
	}
	settled := a.Verb == decide.Leave || a.Reason == status.ReasonWaitingForRollout
	if r, ok := p.results[a.Key]; ok {
		settled = r.Err == nil && r.Problem == nil && r.Observed != nil
	}
	return controller.State{Observed: seen, Current: settled && seen.Health.Status == health.Current}
}
