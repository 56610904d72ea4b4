package inventory

import (
	"encoding/json"
	"fmt"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

// The limits of one Inventory. etcd refuses a request of more than 1.5 MiB, and spec and status of an Inventory each list its objects.
const (
	maxEntries = 1000
	// maxListed is the number of bytes that the entries take in spec and status, without what was left out of the objects.
	maxListed = 900 << 10
	// maxLeftOutTotal is the number of bytes of what was left out of the objects, which is known only after they were listed.
	maxLeftOutTotal = 256 << 10
	// maxRecorded is the number of bytes that a status adds to an entry: the UID, two hashes and the names of the fields.
	maxRecorded = 512
)

// The limits of the inventory in the status of a custom resource, beside which there is more in the status.
const (
	maxOfStatus       = 500
	maxListedInStatus = 384 << 10
)

// part is one of the Inventories of a stage.
type part struct {
	number int32
	// have is the Inventory as it is; nil if it does not exist yet.
	have *keeper.Inventory
	// objects are those of the stage that it lists, or is about to.
	objects []plan.Object
	// entries and size are the number of entries and their bytes.
	entries, size int
}

// split distributes the objects of a stage among its Inventories. What an Inventory lists stays there, since it owns it. What none
// lists goes into the first one with room, or into a further one. A stage without objects has one Inventory, too.
func split(existing []*keeper.Inventory, stage plan.Stage) []*part {
	parts, at := []*part{}, map[plan.Key]*part{}
	for _, inv := range existing {
		one := &part{number: inv.Spec.Part, have: inv, entries: len(inv.Spec.Entries)}
		parts = append(parts, one)
		for _, e := range inv.Spec.Entries {
			if at[plan.KeyOfEntry(e)] == nil {
				at[plan.KeyOfEntry(e)] = one
			}
		}
	}
	if len(parts) == 0 {
		parts = append(parts, &part{})
	}
	measured := false
	for _, o := range stage.Objects {
		one := at[o.Key()]
		if one == nil {
			if !measured {
				measure(parts)
				measured = true
			}
			one, parts = room(parts, sizeOf(listed(o)))
			at[o.Key()] = one
		}
		one.objects = append(one.objects, o)
	}
	return parts
}

// measure adds up the bytes of existing Inventories, which only matters while something is new.
func measure(parts []*part) {
	for _, one := range parts {
		if one.have == nil {
			continue
		}
		for _, e := range one.have.Spec.Entries {
			one.size += sizeOf(e)
		}
	}
}

// room returns a part that has room for an entry, which it then counts, and the parts with it.
func room(parts []*part, size int) (*part, []*part) {
	taken := map[int32]bool{}
	for _, one := range parts {
		taken[one.number] = true
		if one.entries < maxEntries && one.size+size <= maxListed {
			one.entries, one.size = one.entries+1, one.size+size
			return one, parts
		}
	}
	next := &part{entries: 1, size: size}
	for taken[next.number] {
		next.number++
	}
	return next, append(parts, next)
}

// sizeOf is the number of bytes that an entry takes in spec and status at most. It counts what JSON escapes, since some kinds allow
// any character in their names.
func sizeOf(e keeper.InventoryEntry) int {
	raw, err := json.Marshal(keeper.InventoryEntry{ObjectReference: e.ObjectReference, Policy: e.Policy})
	if err != nil {
		panic(fmt.Sprintf("bug: an inventory entry does not encode: %v", err))
	}
	return 2*len(raw) + maxRecorded
}

// tooLargeForStatus reports whether the objects of a plan, and those that are recorded and not gone yet, are too many for an
// inventory in the status of the custom resource.
func tooLargeForStatus(p plan.Plan, recorded []keeper.InventoryEntry) bool {
	number := len(recorded)
	for _, stage := range p.Stages {
		number += len(stage.Objects)
	}
	if number <= maxOfStatus/10 {
		return false // As many fit, whatever their names.
	}
	all := map[plan.Key]keeper.InventoryEntry{}
	for _, e := range recorded {
		all[plan.KeyOfEntry(e)] = e
	}
	for _, stage := range p.Stages {
		for _, o := range stage.Objects {
			all[o.Key()] = listed(o)
		}
	}
	size := 0
	for _, e := range all {
		size += sizeOf(e)
	}
	return len(all) > maxOfStatus || size > maxListedInStatus
}

// ForStatus returns the entries as the status of a custom resource has them.
func ForStatus(entries []keeper.InventoryEntry) []keeper.InventoryEntry { return boundLeftOut(entries) }

// leftOutElsewhere stands for what was left out of an object where a status has no room for it: that there is something is needed to
// write the object again after a change of its schema.
const leftOutElsewhere = "more than the inventory has room for: see the warnings of mlkeeper diff"

// boundLeftOut limits what a status tells of fields that were left out.
func boundLeftOut(entries []keeper.InventoryEntry) []keeper.InventoryEntry {
	total := 0
	for i := range entries {
		e := &entries[i]
		if len(e.LeftOut) == 0 {
			continue
		}
		raw, err := json.Marshal(e.LeftOut)
		if err != nil {
			panic(fmt.Sprintf("bug: warnings do not encode: %v", err))
		}
		if total+len(raw) > maxLeftOutTotal {
			e.LeftOut = []string{leftOutElsewhere}
			total += len(leftOutElsewhere)
			continue
		}
		total += len(raw)
	}
	return entries
}

// Place is an object of a stage, by its name.
type Place struct {
	Stage string
	plan.Key
}

// Listing returns the Inventory that lists each object of a stage, and so owns it.
func Listing(invs []*keeper.Inventory) map[Place]*keeper.Inventory {
	out := map[Place]*keeper.Inventory{}
	for _, inv := range invs {
		for _, e := range inv.Spec.Entries {
			if place := (Place{inv.Spec.StageName, plan.KeyOfEntry(e)}); out[place] == nil {
				out[place] = inv
			}
		}
	}
	return out
}
