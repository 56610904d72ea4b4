package decide

import (
	"cmp"
	"fmt"
	"sort"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

// Verb is what is to be done with one object.
type Verb string

// The verbs, from the strongest to the weakest.
const (
	// Create posts an object that does not exist (invariant 1: never an apply).
	Create Verb = "Create"
	// Apply writes what MLKeeper declares with server-side apply.
	Apply Verb = "Apply"
	// Delete removes an object by UID.
	Delete Verb = "Delete"
	// Leave does nothing, since the object is as declared.
	Leave Verb = "Leave"
	// Wait does nothing yet; the reason says what is waited for.
	Wait Verb = "Wait"
	// Skip leaves out an optional object whose API is not served.
	Skip Verb = "Skip"
	// Conflict leaves alone an object that belongs to somebody else, and reports it.
	Conflict Verb = "Conflict"
)

// Writes says that the object is to be written.
func (v Verb) Writes() bool { return v == Create || v == Apply || v == Delete }

// Reasons of actions, stable words used in metrics.
const (
	ReasonMissing      = "Missing"
	ReasonChanged      = "SpecChanged"
	ReasonDrift        = "DriftDetected"
	ReasonUnverified   = "OwnershipUnknown"
	ReasonPruned       = "Pruned"
	ReasonRecreated    = "Immutable"
	ReasonNotServed    = "APINotServed"
	ReasonNotSynced    = "CacheNotSynced"
	ReasonDependency   = "DependencyNotReady"
	ReasonTerminating  = "Terminating"
	ReasonForeignOwner = "ResourceConflict"
	ReasonRetained     = "Retained"
	ReasonUnchanged    = "Unchanged"
	ReasonSuspended    = "Suspended"
	ReasonCompleted    = "Completed"
)

// Item is one desired object with what is known of it.
type Item struct {
	plan.Stamped
	// Observed is nil when the object does not exist under our label.
	Observed *observe.Object
	// Known is what MLKeeper remembers of its last write; nil when it remembers nothing.
	Known *keeper.InventoryEntry
	// Stored is Known as the API server has it, for an object that is deleted once it has completed: what is in memory alone is lost in a crash.
	Stored *keeper.InventoryEntry
	// Served says that the cluster serves the API, Synced that the watch on it is complete.
	Served, Synced bool
	// Adopt says that the object, though another custom resource made it, has nobody left and may be adopted.
	Adopt bool
	// Held says that the marks of the object name another custom resource that exists, so that it is not ours again by
	// our record alone: two that recorded the same object would take it from each other for ever.
	Held bool
	// Outdated says that something was left out of the object for a schema that is another one now.
	Outdated bool
	// Waits names what the item itself waits for before it is made, whatever the stages before it.
	Waits string
	// Ordered names what the item waits for within its stage before it is made or changed.
	Ordered string
}

// Stage is one stage of the plan with its gate.
type Stage struct {
	Name        string
	Items       []Item
	WaitHealthy bool
	// TimedOut says that the gate of this stage has held back long enough and opens.
	TimedOut bool
}

// Extra is an object that MLKeeper made and that the plan no longer has.
type Extra struct {
	// Entry is what MLKeeper remembers of it; zero when it was only found by its labels.
	Entry keeper.InventoryEntry
	// Observed is nil when it is gone, or lost its labels.
	Observed *observe.Object
	// Gone says that the object is known not to exist any more.
	Gone bool
	// Unwatched says that the watch on its kind is not complete, so that an object which is not observed may be as it was made.
	Unwatched bool
}

// Input is everything that decide judges from.
type Input struct {
	Stack  plan.Stack
	Owners []plan.Owner
	Stages []Stage
	Extras []Extra
	// Prune is false while a problem stands that does not allow it: what already runs is not torn down because of bad input.
	Prune bool
	// KeepRuns leaves what was run and the plan no longer has, such as the Job of a hook that has failed, whose logs tell why.
	KeepRuns bool
}

// Action is one decision.
type Action struct {
	Verb Verb
	// Object is the desired object; its Desired is nil for Delete.
	Object plan.Stamped
	Key    plan.Key
	// Version is the API version to delete an Extra in.
	Version string
	// UID guards applies and deletes; empty for Create.
	UID types.UID
	// ResourceVersion guards the deletion of what the plan no longer has, which may have become another's since it was
	// judged; empty where nothing was seen to judge.
	ResourceVersion string
	// Migrate says that the managedFields entry of the POST must be migrated before the apply.
	Migrate bool
	// MigratePrevious says that the fields of the previous operator are to become ours, so that those that we do not declare go
	// (invariant 8).
	MigratePrevious bool
	// Reason is one of the Reason constants.
	Reason string
	// Detail names what a Wait waits for, and the owner of an object that is a Conflict.
	Detail string
	// KnownUID is the UID of our last write, by which an object that lost its labels is known again.
	KnownUID types.UID
	// Adopted says that the object was adopted, so that it gets no owner reference.
	Adopted bool
}

// Writes says that the action changes the cluster.
func (a Action) Writes() bool { return a.Verb == Create || a.Verb == Apply || a.Verb == Delete }

// Decide judges every object of the plan in order, then what the plan no longer has, in reverse order.
func Decide(in Input) []Action {
	var out []Action
	gate := newGate()
	for _, stage := range in.Stages {
		for _, item := range stage.Items {
			out = append(out, judge(in, item, cmp.Or(gate.closed(item.Key), item.Waits)))
		}
		gate.add(in, stage)
	}
	if in.Prune {
		out = append(out, prune(in)...)
	}
	return out
}

// recorded says that nobody controls the object, but that by its UID it is the very one that we recorded, and that MLKeeper
// has written it: marks that somebody changed do not make a retained object another's.
func (i Item) recorded() bool {
	return !i.Held && i.Known != nil && i.Observed.Written() && i.Known.UID != "" && i.Known.UID == i.Observed.UID &&
		metav1.GetControllerOfNoCopy(&i.Observed.ObjectMeta) == nil
}

// applied says that the item was there as it is declared now: it is repaired, whatever comes before it.
func (i Item) applied() bool {
	return i.Known != nil && i.Known.UID != "" && i.Known.AppliedHash == i.Digest
}

// ran says that a hook has run to its end for what it is to run for, whatever its manifest is since: Helm runs hooks when a chart is
// installed or upgraded, and not when something else changes what it renders.
func (i Item) ran() bool {
	if !i.Hook || i.Observed == nil {
		return false
	}
	run := i.Run()
	return run != "" && i.Observed.Annotations[keeper.RunAnnotation] == run &&
		(i.Observed.Completed || i.Known != nil && i.Known.Completed && i.Known.UID == i.Observed.UID)
}

// ranBefore says that a hook has run to its end for what it is to run for, as it was declared before.
func (i Item) ranBefore() bool { return i.ran() && i.Observed.AppliedHash() != i.Digest }

// completed says that a hook has run to its end as it is declared now.
func (i Item) completed() bool {
	return i.done() || i.ran() || i.Observed != nil && i.Observed.AppliedHash() == i.Digest &&
		(i.Observed.Completed || i.applied() && i.Known.Completed && i.Known.UID == i.Observed.UID)
}

// done says that the object is a Job that completed, and is gone since: as with Helm, a Job runs once, also where its ttlSecondsAfterFinished has it
// removed.
func (i Item) done() bool {
	return i.Observed == nil && i.Known != nil && RecordsRun(i.Stamped, *i.Known)
}

// RecordsRun says that by the entry an object has completed as it is declared, or for what it is to run for as it was declared before. Once it is
// gone it is not made again.
func RecordsRun(o plan.Stamped, e keeper.InventoryEntry) bool {
	return e.Completed && e.UID != "" && (e.AppliedHash == o.Digest || e.Run != "" && e.Run == o.Run())
}

// judge decides about one desired object. gate names what an earlier stage still waits for; it holds back only what
// does not exist yet (invariant 14).
func judge(in Input, item Item, gate string) Action {
	a := Action{Object: item.Stamped, Key: item.Key}
	if item.Known != nil {
		a.KnownUID = item.Known.UID
	}
	switch {
	case !item.Served && item.Optional:
		a.Verb, a.Reason = Skip, ReasonNotServed
	case !item.Served:
		a.Verb, a.Reason, a.Detail = Wait, ReasonNotServed, notServed(item)
	case !item.Synced:
		a.Verb, a.Reason, a.Detail = Wait, ReasonNotSynced, unwatched(item.Key)
	case item.done():
		a.Verb, a.Reason = Leave, ReasonCompleted
	case item.Observed == nil:
		a.absent(item, gate)
	case !item.Observed.OwnedBy(in.Stack, in.Owners...) && !item.recorded() && !item.Adopt:
		a.Verb, a.Reason, a.Detail = Conflict, ReasonForeignOwner, observe.OwnerOf(item.Observed)
	case item.Observed.Terminating():
		a.Verb, a.Reason, a.Detail = Wait, ReasonTerminating, leaving(item.Key)
	case item.IfNotPresent:
		a.Verb, a.Reason = Leave, ReasonUnchanged
	default:
		a.UID, a.Migrate, a.Adopted = item.Observed.UID, item.Observed.Created, item.Observed.Adopted()
		a.MigratePrevious = (item.Observed.AppliedHash() == "" || item.Observed.Partial()) && !item.Partial
		a.Verb, a.Reason = verify(item, in.Owners)
		a.ordered(item)
	}
	if item.Hold != "" && a.Writes() {
		a.Verb, a.Reason, a.Detail = Wait, ReasonDependency, item.Hold
	}
	return a
}

// absent has what does not exist yet made, once nothing before it is waited for.
func (a *Action) absent(item Item, gate string) {
	switch {
	case gate != "":
		a.Verb, a.Reason, a.Detail = Wait, ReasonDependency, gate
	case item.Ordered != "" && !item.applied():
		a.Verb, a.Reason, a.Detail = Wait, ReasonDependency, item.Ordered
	case item.Known != nil && item.Known.Completed:
		// It is gone since it completed as it was declared before.
		a.Verb, a.Reason = Create, ReasonChanged
	default:
		a.Verb, a.Reason = Create, ReasonMissing
	}
}

// ordered has a change wait for what comes before it, has a hook run anew for something else, and ends one that has completed. One that is deleted
// before it is recorded would be run again after a crash.
func (a *Action) ordered(item Item) {
	changed := a.Verb == Apply && a.Reason == ReasonChanged
	switch {
	case item.DeleteCompleted && item.recordedRun(item.Known) && (a.Verb == Leave || changed && item.ran() || item.ranBefore()):
		a.Verb, a.Reason = Leave, ReasonCompleted
		if item.recordedRun(item.Stored) {
			a.Verb, a.ResourceVersion = Delete, item.Observed.ResourceVersion
		}
	case changed && item.ran():
		a.Verb, a.Reason = Leave, ReasonCompleted
	case changed && item.Ordered != "":
		a.Verb, a.Reason, a.Detail = Wait, ReasonDependency, item.Ordered
	case changed && item.Hook && item.Observed.Annotations[keeper.RunAnnotation] != item.Desired.GetAnnotations()[keeper.RunAnnotation]:
		a.Verb, a.ResourceVersion = Delete, item.Observed.ResourceVersion
	}
}

// recordedRun says that an entry, if there is one, tells that the very object that is there has completed.
func (i Item) recordedRun(e *keeper.InventoryEntry) bool {
	return e != nil && e.UID == i.Observed.UID && RecordsRun(i.Stamped, *e)
}

// leaving describes an object whose end is waited for. Its finalizers are not in the caches.
func leaving(key plan.Key) string {
	return key.String() + " to be gone; if it stays, whoever has set its finalizers is to remove them"
}

func unwatched(key plan.Key) string { return "the watch on " + key.Kind }

// notServed describes the API that a required object waits for.
func notServed(item Item) string {
	return fmt.Sprintf("the API of %s: %s is not served, install what provides it, or correct its apiVersion and kind",
		item.Key, item.Desired.GroupVersionKind().GroupVersion())
}

// verify tells whether an object of ours is as declared, from the digest of what was rendered and the hash of what
// MLKeeper owns of it (invariant 9).
func verify(item Item, owners []plan.Owner) (Verb, string) {
	switch {
	case item.Policy() != "" && item.Observed.Refers(owners...):
		// Somebody, such as the previous operator, made it go with the custom resource (invariant 8).
		return Apply, ReasonDrift
	case item.Observed.AppliedHash() != item.Digest && item.Known != nil && item.Known.AppliedHash == item.Digest:
		return Apply, ReasonDrift
	case item.Observed.AppliedHash() != item.Digest:
		return Apply, ReasonChanged
	case item.Outdated:
		return Apply, ReasonChanged
	case item.Known == nil || item.Known.AppliedHash != item.Digest || item.Known.UID != item.Observed.UID:
		return Apply, ReasonUnverified
	case item.Known.OwnedFieldsHash != item.Observed.OwnedFieldsHash:
		return Apply, ReasonDrift
	}
	return Leave, ""
}

// prune deletes what the plan no longer has, the last first. What must be retained stays (invariant 5), and so does what is
// not ours any more.
func prune(in Input) []Action {
	extras := append([]Extra(nil), in.Extras...)
	sort.SliceStable(extras, func(i, j int) bool { return extraName(extras[i]) > extraName(extras[j]) })
	var out []Action
	for _, e := range extras {
		if e.Observed == nil {
			if a, ok := pruneUnseen(e); ok {
				out = append(out, a)
			}
			continue
		}
		a := Action{
			Key: e.Observed.Key, UID: e.Observed.UID, ResourceVersion: e.Observed.ResourceVersion,
			Version: version(e.Observed.APIVersion), Reason: ReasonPruned,
		}
		switch {
		case !e.Observed.OwnedBy(in.Stack, in.Owners...):
			continue
		case e.Entry.Policy == keeper.Retain || neverPruned(e.Observed.Key) || Kept(e.Observed, in.KeepRuns),
			// Without a record of what MLKeeper has written the missing owner reference tells that it was retained.
			(e.Entry.UID != e.Observed.UID || !e.Observed.Written()) && metav1.GetControllerOfNoCopy(&e.Observed.ObjectMeta) == nil:
			a.Verb, a.Reason = Leave, ReasonRetained
		case e.Observed.Terminating():
			a.Verb, a.Reason, a.Detail = Wait, ReasonTerminating, leaving(e.Observed.Key)
		default:
			a.Verb = Delete
		}
		out = append(out, a)
	}
	return out
}

// Kept says that an object tells itself that it stays though the plan no longer has it: it was adopted, it was run and that must stay, or
// somebody set the annotation against pruning on it, which the plan need not have.
func Kept(seen *observe.Object, keepRuns bool) bool {
	return seen.Adopted() || keepRuns && seen.Annotations[keeper.RunAnnotation] != "" || seen.Annotations[keeper.PruneAnnotation] == keeper.PruneDisabled
}

// pruneUnseen deletes, by the UID of our last write, what no watch shows any more: it is gone, and the delete finds
// nothing, or its labels were stripped. While the watch is not complete, as after a start, nobody knows.
func pruneUnseen(e Extra) (Action, bool) {
	key := plan.KeyOfEntry(e.Entry)
	if e.Gone || e.Entry.UID == "" || e.Entry.Policy == keeper.Retain || neverPruned(key) {
		return Action{}, false
	}
	if e.Unwatched {
		return Action{Verb: Wait, Key: key, Reason: ReasonNotSynced, Detail: unwatched(key)}, true
	}
	return Action{Verb: Delete, Key: key, UID: e.Entry.UID, Version: e.Entry.Version, Reason: ReasonPruned}, true
}

// version is the version of an apiVersion.
func version(apiVersion string) string { return apiVersion[strings.LastIndex(apiVersion, "/")+1:] }

// neverPruned names the kinds whose removal destroys data of users; they are never pruned (invariant 5).
func neverPruned(k plan.Key) bool {
	return plan.AlwaysRetained(k) || k.Group == "" && k.Kind == "PersistentVolumeClaim"
}

// extraName orders extras. Kinds of the same name are told apart by their groups.
func extraName(e Extra) string {
	key := plan.KeyOfEntry(e.Entry)
	if e.Observed != nil {
		key = e.Observed.Key
	}
	return key.String() + " " + key.Group
}
