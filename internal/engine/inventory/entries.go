package inventory

import (
	"fmt"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

// EntryOf returns the entry of an object that was written, with what the API server answered.
func EntryOf(o plan.Stamped, written *observe.Object, leftOut []string) keeper.InventoryEntry {
	return keeper.InventoryEntry{
		ObjectReference: keeper.ObjectReference{
			Group: o.Key.Group, Version: o.Desired.GroupVersionKind().Version, Kind: o.Key.Kind,
			Namespace: o.Key.Namespace, Name: o.Key.Name,
		},
		UID: written.UID, AppliedHash: o.Digest, OwnedFieldsHash: written.OwnedFieldsHash, Policy: PolicyOf(o, written), LeftOut: truncate(leftOut),
		Completed: written.Completed, Run: o.Run(),
	}
}

// PolicyOf returns the policy of an object that must be retained after its custom resource, because the plan says so or it was adopted.
func PolicyOf(o plan.Stamped, seen *observe.Object) keeper.EntryPolicy {
	if seen.Adopted() {
		return keeper.Retain
	}
	return o.Policy()
}

// Entries returns the entries of Inventories by object. The status of an Inventory, which has the results of the writes, takes
// precedence over its spec.
func Entries(invs []*keeper.Inventory) map[plan.Key]keeper.InventoryEntry {
	out := map[plan.Key]keeper.InventoryEntry{}
	for _, inv := range invs {
		for _, e := range inv.Spec.Entries {
			out[plan.KeyOfEntry(e)] = e
		}
		for _, e := range inv.Status.Entries {
			out[plan.KeyOfEntry(e)] = e
		}
	}
	return out
}

// Merge returns the entries of a custom resource: those of its Inventories, and those of its own status that no Inventory has.
func Merge(status []keeper.InventoryEntry, invs []*keeper.Inventory) map[plan.Key]keeper.InventoryEntry {
	out := Entries(invs)
	for _, e := range status {
		if _, listed := out[plan.KeyOfEntry(e)]; !listed {
			out[plan.KeyOfEntry(e)] = e
		}
	}
	return out
}

// The limits of an entry's leftOut, as in the schema.
const maxLeftOut, maxLeftOutLength = 16, 512

// truncate shortens warnings to the limits of leftOut; the last item then counts the ones that are missing.
func truncate(warnings []string) []string {
	var out []string
	for i, w := range warnings {
		if i == maxLeftOut-1 && len(warnings) > maxLeftOut {
			return append(out, fmt.Sprintf("and %d more", len(warnings)-i))
		}
		out = append(out, controller.Cut(w, maxLeftOutLength))
	}
	return out
}
