package engine

import (
	"unique"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

// intern lets the entries of ledgers share the words that they repeat, which are half of what they hold.
func intern(entries []keeper.LedgerEntry) {
	for i := range entries {
		e := &entries[i]
		for _, word := range []*string{&e.Group, &e.Kind, &e.Version, &e.Namespace} {
			*word = unique.Make(*word).Value()
		}
	}
}

// internInventory does so for both lists of an Inventory, which name the same objects.
func internInventory(inv *keeper.Inventory) {
	intern(inv.Spec.Objects)
	intern(inv.Status.Objects)
	listed := make(map[plan.Key]*keeper.LedgerEntry, len(inv.Spec.Objects))
	for i := range inv.Spec.Objects {
		listed[keyOf(inv.Spec.Objects[i])] = &inv.Spec.Objects[i]
	}
	for i := range inv.Status.Objects {
		e := &inv.Status.Objects[i]
		if same := listed[keyOf(*e)]; same != nil {
			e.Name = same.Name
			if e.Digest == same.Digest {
				e.Digest = same.Digest
			}
		}
	}
}
