package inventory

import (
	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/engine/observe"
)

// More people may read inventories than the objects in them: the viewer roles of config/rbac have custom resources and Inventories alone. The
// hashes of an entry would let them try values, such as passwords in an environment, so they are stored sealed. The annotation applied-hash
// on an object is as it was computed, since who reads it reads the object: a lost key therefore changes no object.

// Open returns an entry with its hashes as they were computed, where those are the hashes of what is declared or of what is observed; nil
// for nothing. Other hashes stay sealed, and equal none.
// A Job that completed and is gone counts as declared where another key sealed its entry: it runs once, and nothing tells what it was.
func Open(sealer digest.Sealer, e keeper.InventoryEntry, declared string, seen *observe.Object) keeper.InventoryEntry {
	switch {
	case sealer.Is(e.AppliedHash, declared), e.Completed && seen == nil && sealer.Foreign(e.AppliedHash):
		e.AppliedHash = declared
	case seen != nil && sealer.Is(e.AppliedHash, seen.AppliedHash()):
		e.AppliedHash = seen.AppliedHash()
	}
	if seen != nil && sealer.Is(e.OwnedFieldsHash, seen.OwnedFieldsHash) {
		e.OwnedFieldsHash = seen.OwnedFieldsHash
	}
	return e
}

// Seal seals the hashes of entries, which it changes, as they are stored.
func Seal(sealer digest.Sealer, entries []keeper.InventoryEntry) {
	for i := range entries {
		e := &entries[i]
		e.AppliedHash, e.OwnedFieldsHash = sealer.Seal(e.AppliedHash), sealer.Seal(e.OwnedFieldsHash)
	}
}
