package decide

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
)

// gate is what the stages so far hold back of those after them, each with what it waits for. A stage that waits to be
// healthy holds back everything, a Namespace what is in it, a CRD the custom resources that it defines (invariant 14).
type gate struct {
	everything string
	namespaces map[string]string
	kinds      map[schema.GroupKind]string
}

func newGate() *gate {
	return &gate{namespaces: map[string]string{}, kinds: map[schema.GroupKind]string{}}
}

// closed names what an object of a later stage waits for, or returns "".
func (g *gate) closed(key plan.Key) string {
	return cmp.Or(g.everything, g.namespaces[key.Namespace], g.kinds[key.GroupKind])
}

// add closes the gate for what depends on a stage; that of a stage that has timed out is open.
func (g *gate) add(in Input, stage Stage) {
	switch {
	case stage.TimedOut:
		return
	case stage.WaitHealthy:
		if g.everything == "" {
			g.everything = ClosedBy(in, stage)
		}
		return
	}
	for _, item := range stage.Items {
		if !plan.AlwaysRetained(item.Key) || item.postponed() {
			continue
		}
		by := notReadyReason(in, item)
		switch {
		case by == "":
		case item.Key.Kind == "Namespace":
			g.namespaces[item.Key.Name] = by
		default:
			g.kinds[plan.DefinedBy(item.Desired)] = by
		}
	}
}

// ClosedBy names what the gate of a stage waits for, or returns "" when it is open. Namespaces and CRDs gate always,
// other kinds only where the stage asks (invariant 14).
func ClosedBy(in Input, stage Stage) string {
	for _, item := range stage.Items {
		if !stage.WaitHealthy && !plan.AlwaysRetained(item.Key) || item.postponed() {
			continue
		}
		if by := notReadyReason(in, item); by != "" {
			return by
		}
	}
	return ""
}

// postponed says that a Namespace or a CRD is there, and that its change comes after steps of a later stage, which must not wait for it.
func (i Item) postponed() bool { return i.StepOf != "" && i.Ordered != "" }

// notReadyReason names what an object waits for before it lets pass what comes after it, or returns "".
func notReadyReason(in Input, item Item) string {
	switch {
	case !item.Served && item.Optional:
		return ""
	case item.done():
		return ""
	case item.Observed == nil || !item.Observed.OwnedBy(in.Stack, in.Owners...):
		return item.Key.String() + " to exist"
	case item.ran():
		return ""
	case item.Observed.AppliedHash() != item.Digest && !item.IfNotPresent:
		// Its health is that of what it was, not of what it is to become.
		return item.Key.String() + " to be updated"
	case item.Hook && !item.completed():
		return item.Key.String() + " to complete"
	case item.Hook:
		return ""
	case item.Observed.Health.Status != health.Current && !item.IgnoreHealth:
		return item.Key.String() + " to be ready"
	}
	return ""
}

// Before is what an object waits for within its stage.
type Before struct {
	// Waits names it; empty for nothing.
	Waits string
	// Hook says that it is a hook, for which everything waits until it has completed.
	Hook bool
}

// Steps says what the steps of a stage, which have these objects, wait for; nil where it has but one.
func Steps(in Input, items []*Item) map[int]Before {
	var steps []int
	for _, item := range items {
		if !slices.Contains(steps, item.Step) {
			steps = append(steps, item.Step)
		}
	}
	if len(steps) < 2 {
		return nil
	}
	slices.Sort(steps)
	out, before := map[int]Before{}, Before{}
	for _, step := range steps {
		out[step] = before
		for _, item := range items {
			if item.Step != step || before.Hook || before.Waits != "" && !item.Hook {
				continue
			}
			if waits := notReadyReason(in, *item); waits != "" {
				before = Before{Waits: waits, Hook: item.Hook}
			}
		}
	}
	return out
}

// Spend records of the objects that were made for the hooks of a stage alone whether all of these have completed, and returns those of which
// that is new. A hook that has completed as it was declared before, which nothing else records when it was not known after a crash, is recorded as it
// is there.
func Spend(in Input, stage Stage) []Item {
	spent := !slices.ContainsFunc(stage.Items, func(i Item) bool { return i.Hook && !i.completed() })
	var out []Item
	for i, item := range stage.Items {
		if item.Hook {
			if item.ranBefore() && item.Observed.OwnedBy(in.Stack, in.Owners...) && !item.recordedRun(item.Known) {
				stage.Items[i].Known = item.ranEntry()
				out = append(out, stage.Items[i])
			}
			continue
		}
		if !item.DeleteCompleted || item.Known == nil {
			continue
		}
		made := item.applied() && item.Observed != nil && item.Observed.UID == item.Known.UID && item.Observed.AppliedHash() == item.Digest
		if completed := spent && (made || item.Known.Completed); completed != item.Known.Completed {
			item.Known.Completed = completed
			out = append(out, item)
		}
	}
	return out
}

// ranEntry is the entry of a hook that has completed, as it is there.
func (i Item) ranEntry() *keeper.InventoryEntry {
	seen := i.Observed
	out := keeper.InventoryEntry{ObjectReference: keeper.ObjectReference{
		Group: i.Key.Group, Version: version(seen.APIVersion), Kind: i.Key.Kind, Namespace: i.Key.Namespace, Name: i.Key.Name,
	}, Policy: i.Policy()}
	if i.Known != nil && i.Known.UID == seen.UID {
		out = *i.Known
	}
	out.UID, out.AppliedHash, out.OwnedFieldsHash = seen.UID, seen.AppliedHash(), seen.OwnedFieldsHash
	out.Completed, out.Run = true, i.Run()
	return &out
}

// Failed says why a hook has failed as it is declared now; false where it has not.
func (i Item) Failed() (why string, failed bool) {
	if !i.Hook || i.Observed == nil || i.Observed.AppliedHash() != i.Digest || i.completed() || i.Observed.Terminating() {
		return "", false
	}
	return i.Observed.Health.Message, i.Observed.Health.Status == health.Failed
}

// Awaits names what keeps the stages of the given names from being healthy as a whole, or returns "".
func Awaits(in Input, names []string) string {
	for _, name := range names {
		for _, stage := range in.Stages {
			if stage.Name != name {
				continue
			}
			stage.WaitHealthy = true
			if waits := ClosedBy(in, stage); waits != "" {
				return waits
			}
		}
	}
	return ""
}
