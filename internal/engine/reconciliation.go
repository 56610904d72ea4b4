package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/inventory"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/reader"
	"mlkeeper.dev/internal/engine/retry"
	"mlkeeper.dev/internal/engine/status"
)

// reconciliation is one reconcile of one custom resource. Each field says which step sets it.
type reconciliation[C client.Object, F any] struct {
	key    client.ObjectKey
	began  time.Time // What became due since then is due when the reconcile ends.
	before C         // The custom resource as read; set at the start and never changed.
	cr     C         // A copy whose status report fills.
	stack  plan.Stack
	state  *reconcileState
	reader *reader.Reader
	// stored returns the entries of the inventory as the API server had them when the reconcile began.
	stored func() map[plan.Key]keeper.InventoryEntry
	// unconfirmed says that the custom resource as read may be out of date; recheckLive ends it.
	unconfirmed bool

	facts        F            // Set by prepare.
	plan         plan.Plan    // Set by prepare.
	pruned       bool         // Set by decide: what the plan no longer has was judged too.
	cache        *renderCache // Set by prepare: the plan as it is kept for the next reconcile; nil for controllers without a PlanCache.
	evictions    int          // Set by prepare.
	rendered     bool         // Set by prepare when it ended without an error: there is a plan, or a problem.
	gatherFailed bool         // Set by prepare when gather found a problem, so that there is no plan, and by resolveOwners when the plan is not applied.

	inventories  []*keeper.Inventory                // Set by resolveOwners; empty for a stack that owns its children directly.
	owners       []plan.Owner                       // Set by resolveOwners.
	stamped      [][]plan.Stamped                   // Set by resolveOwners, by stage.
	entries      map[plan.Key]keeper.InventoryEntry // Set by resolveOwners from status or Inventories; updated by act.
	remaining    []keeper.InventoryEntry            // Set by report: the inventory that this reconcile leaves.
	actions      []decide.Action                    // Set by decide.
	unseen       map[schema.GroupKind]bool          // Set by decide: of what was recorded, whether the watch on the kind was not complete.
	gates        map[string]time.Time               // Set by decide: since when each gate is closed that is closed now.
	refused      bool                               // Set by decide: something of the plan waits to be tried again, for its watch or for its API, or is another's.
	schemas      map[schema.GroupKind]schemaAt      // Set by act: the definitions that count at its beginning, of what is written.
	results      map[plan.Key]act.Result            // Set by act.
	nextAt       time.Time                          // Set by decide and act: when to look again, if nothing enqueues it before.
	blocked      bool                               // Set by prepare and act: something other than a write is blocked.
	problems     []plan.Problem                     // Added to by prepare and act.
	warnings     []string                           // Added to by decide and act.
	ceded        []status.CededField                // Set by act.
	held         string                             // Set by decide: what a rollout waits for; empty when none waits.
	transient    error                              // Set by act.
	awaits       bool                               // Set by summarize: the outcomes of the wires were not complete.
	lags         bool                               // Set by report: it waits for nothing but controllers that have yet to look at their objects.
	failed       bool                               // Set by report: what was asked for has failed.
	ignoreHealth map[plan.Key]bool                  // Set by resolveOwners.
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
		key: key, began: s.Clock.Now(), before: cr, cr: cr.DeepCopyObject().(C), state: s.stateOf(key),
		stack:   s.stackOf(cr),
		entries: map[plan.Key]keeper.InventoryEntry{}, results: map[plan.Key]act.Result{},
		ignoreHealth: map[plan.Key]bool{},
	}
	p.state.healths.spent = 0
	if len(*s.def.Common(cr).Conditions) == 0 {
		p.state.fresh = true
	}
	p.stored = s.storedEntries(cr)
	recorded := func(key plan.Key) bool { return p.stored()[key].UID != "" }
	p.reader = s.readers.New(reader.Request{
		Stack: p.stack, Declared: s.declares, Recorded: recorded, WatchGroup: s.watchGroup, WatchKinds: s.watchAllKinds,
	})
	return p
}

// decide gathers what the caches know of every object and lets the pure judgement decide.
func (s *stacks[C, F]) decide(p *reconciliation[C, F]) {
	if p.gatherFailed {
		return
	}
	p.pruned = plan.MayPrune(p.problems)
	in := decide.Input{Stack: p.stack, Owners: p.owners, Prune: p.pruned, KeepRuns: len(p.problems) > 0}
	desired := map[plan.Key]bool{}
	for _, key := range p.plan.Keep {
		desired[key] = true
	}
	for i, stage := range p.plan.Stages {
		if stage.Suspended {
			decide.KeepListed(p.inventories, stage.Name, desired)
		}
		st := decide.Stage{Name: stage.Name, WaitHealthy: stage.WaitHealthy}
		for _, o := range p.stamped[i] {
			desired[o.Key] = true
			st.Items = append(st.Items, s.item(p, o))
		}
		in.Stages = append(in.Stages, st)
	}
	for i := range in.Stages {
		s.hold(p, in, i)
		in.Prune = s.orderSteps(p, in, i) && in.Prune
	}
	for i, stage := range p.plan.Stages {
		in.Stages[i].TimedOut = s.gateTimedOut(p, stage, in.Stages[i])
	}
	p.pruned = in.Prune
	p.state.healths.keep(desired)
	in.Extras = s.extras(p, desired)
	p.actions = decide.Decide(in)
	explainUnwatched(p.actions, s.childWatchError)
	decide.LeaveSuspended(p.plan.Stages, p.actions)
	s.holdRetries(p)
	decide.HoldReplaced(decide.StagesThatKeep(p.plan.Stages, p.actions, p.problems), p.actions, p.inventories)
	s.holdRollout(p)
	p.state.gates = p.gates
}

// holdRetries has the writes wait that were refused and are not due. While there are such, or another owner has an object of the plan, or it is not
// known yet, nothing that the plan no longer has is deleted, as in the reconcile that was refused, and workloads that refer to another's object wait.
func (s *stacks[C, F]) holdRetries(p *reconciliation[C, F]) {
	problems, due := p.state.retries.Hold(p.actions, func(key plan.Key) retry.Request { return s.heldRequest(p, key) }, s.Clock.Now())
	p.refused = slices.ContainsFunc(problems, func(problem plan.Problem) bool { return !retry.Repeats(problem) }) ||
		slices.ContainsFunc(p.actions, func(a decide.Action) bool { return a.HoldsPruning(p.plan.Stages) })
	p.retry(problems, due)
	decide.HoldReferrers(p.actions)
}

// watchTakenNames has the objects watched that other owners have under names of the plan, so that what was rejected is tried as soon as one is
// gone.
func (s *stacks[C, F]) watchTakenNames(ctx context.Context, p *reconciliation[C, F]) {
	for _, one := range p.state.retries.Taken() {
		if there, known := p.reader.Occupied(ctx, one.GVK, one.Key.Namespace, one.Key.Name); known {
			p.state.retries.See(one.Key, there)
		}
	}
}

// hold sets what the objects of a stage wait for before they are created: the stages that their stage comes after, and the
// server of a webhook.
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
	}
}

func (s *stacks[C, F]) item(p *reconciliation[C, F], o plan.Stamped) decide.Item {
	item := decide.Item{Stamped: o}
	if e, ok := p.entries[o.Key]; ok {
		item.Known, item.Outdated = &e, s.outdated(p, o.Key, e) || leavesMore(e, o.Drift)
	}
	if o.DeleteCompleted {
		if e, ok := p.stored()[o.Key]; ok {
			e = inventory.Open(s.sealer(p.stack.UID), e, o.Digest, s.child(o.Key))
			item.Stored = &e
		}
	}
	_, item.Served = s.catalog.Lookup(o.Desired.GroupVersionKind())
	item.Synced = s.informers.ChildSynced(o.Key.GroupKind, s.def.Controller)
	if seen := s.child(o.Key); seen != nil {
		item.Observed = s.withHealth(p, o, s.settling(p, seen))
		item.Adopt = wantsAdoption(p.cr) && s.abandoned(seen)
		item.Held = s.heldByAnother(p, seen)
	}
	return item
}

// settling returns a child with its health at this time, and reconciles again when the health changes by time alone: no watch
// reports that.
func (s *stacks[C, F]) settling(p *reconciliation[C, F], seen *observe.Object) *observe.Object {
	now := s.Clock.Now()
	current := seen.Health.At(now)
	if current == seen.Health {
		return seen
	}
	p.requeueAt(seen.Health.NotBefore)
	out := *seen
	out.Health = current
	return &out
}

// retry reports problems of writes that are tried again, and has the custom resource reconciled at a time; zero for none.
func (p *reconciliation[C, F]) retry(problems []plan.Problem, due time.Time) {
	p.problems = append(p.problems, problems...)
	if !due.IsZero() {
		p.requeueAt(due)
	}
}

// userRequest changes whenever the user asks for something anew.
func userRequest(cr metav1.Object) string {
	notes := cr.GetAnnotations()
	return fmt.Sprint(cr.GetGeneration(), notes[keeper.ReconcileAtAnnotation], notes[keeper.AdoptAnnotation], notes[keeper.SuspendAnnotation])
}

// extras are objects that MLKeeper made for this stack and that the plan no longer has: from its status or Inventories,
// and from the cache, since a crash may have come between a write and its record.
func (s *stacks[C, F]) extras(p *reconciliation[C, F], desired map[plan.Key]bool) []decide.Extra {
	var out []decide.Extra
	p.unseen = map[schema.GroupKind]bool{}
	taken, listed := map[plan.Key]bool{}, inventory.Entries(p.inventories)
	for key, entry := range p.entries {
		if _, asked := p.unseen[key.GroupKind]; !asked {
			p.unseen[key.GroupKind] = !s.informers.ChildSynced(key.GroupKind, s.def.Controller)
		}
		if desired[key] {
			continue
		}
		if _, ours := listed[key]; !ours && !s.reaches(p.stack, key) {
			delete(p.entries, key) // Somebody else wrote it into the status.
			continue
		}
		taken[key] = true
		x := decide.Extra{Entry: entry, Observed: s.child(key), Unwatched: p.unseen[key.GroupKind] && !s.unwatchable(key.GroupKind)}
		served := len(s.catalog.Versions(key.GroupKind)) > 0 // Also where the cluster has moved on to another version.
		x.Gone = x.Observed == nil && (!served || s.informers.ChildDeleted(s.def.Controller, key, entry.UID))
		out = append(out, x)
	}
	for _, seen := range s.informers.ChildrenOfStack(s.def.Controller, p.stack.Hash()) {
		if !desired[seen.Key] && !taken[seen.Key] {
			out = append(out, decide.Extra{Observed: seen})
		}
	}
	return out
}

// unwatchable says that the watch on a kind of children is refused for good, so that reads tell of the children.
func (s *stacks[C, F]) unwatchable(gk schema.GroupKind) bool {
	return apierrors.IsForbidden(s.informers.ChildWatchError(gk, s.def.Controller))
}

// declares says that a kind is watched for all custom resources of the controller.
func (s *stacks[C, F]) declares(gk schema.GroupKind) bool {
	return slices.ContainsFunc(s.def.Children, func(gvk schema.GroupVersionKind) bool { return gvk.GroupKind() == gk })
}

// reaches says that an entry of a status may be about a child: it has a kind of the controller's, and is where the custom resource
// can own objects. Whoever may write the status of his own custom resource names what he likes there; an Inventory, which lists
// everything else, only cluster administrators can write.
func (s *stacks[C, F]) reaches(stack plan.Stack, key plan.Key) bool {
	if stack.Namespace != "" && key.Namespace != stack.Namespace {
		return false
	}
	return s.def.AnyChildren || s.declares(key.GroupKind)
}

// act performs the decisions and keeps what the writes answered.
func (s *stacks[C, F]) act(ctx context.Context, p *reconciliation[C, F]) {
	if p.gatherFailed {
		return
	}
	p.schemas = s.schemasOf(p.actions)
	results := s.actor.Do(ctx, act.Request{
		Stack: p.stack, Owners: p.owners, Actions: p.actions, ActAs: p.plan.ActAs, PreviousOwner: p.plan.PreviousOwner,
		Adopt: wantsAdoption(p.cr), AdoptAnywhere: s.def.AnyChildren, PreviousManagers: s.def.PreviousManagers, Refused: p.refused,
		KeepRuns: len(p.problems) > 0,
	})
	for _, r := range results {
		s.remember(p, r)
	}
	s.conflicts(p)
}

// remember keeps what one write answered.
func (s *stacks[C, F]) remember(p *reconciliation[C, F], r act.Result) {
	p.results[r.Action.Key] = r
	request, _ := s.request(p, r.Action.Key)
	p.retry(p.state.retries.Record(r, request, s.Clock.Now()))
	switch {
	case r.Err != nil:
		p.transient = r.Err
	case r.Problem != nil:
		p.problems = append(p.problems, *r.Problem)
		if r.Problem.Reason == act.ReasonConflict && len(p.inventories) == 0 {
			// Another's object has the name. The status, which whoever may write it can forge, must not call it a child.
			delete(p.entries, r.Action.Key)
		}
	case r.Stale:
		// What was judged has changed meanwhile. Its event may have come before this pass was over.
		p.requeueAt(s.Clock.Now().Add(staleRetry))
	case r.Observed != nil:
		e := inventory.EntryOf(r.Action.Object, r.Observed, r.Warnings)
		e.DefinitionGeneration = p.writtenFor(r.Action.Key, e)
		p.entries[r.Action.Key] = e
	case r.Action.Object.Desired != nil:
		// Deleted, to be made again when a watch reports that it is gone.
	case r.Kept:
	case !r.Wrote:
		// There was nothing left to delete, of which no watch tells.
		delete(p.entries, r.Action.Key)
		s.completed(p.state, r.Action.Key, "", true)
	case r.Action.ResourceVersion == "":
		// No watch shows it, nor will one tell that it is gone.
		p.requeueAt(s.Clock.Now().Add(staleRetry))
	}
	if r.Wrote {
		s.metrics.wrote(s.def.GVK.Kind, p.key, r.Action)
	}
}

// child is what is known of a child; nil if it does not exist.
func (s *stacks[C, F]) child(key plan.Key) *observe.Object {
	seen, _ := s.informers.Child(s.def.Controller, key)
	return seen
}
