package inventory

import (
	"time"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// maxPending is the longest time between a write of a child and its record in the Inventories.
const maxPending = 10 * time.Second

// Pending are the entries of one custom resource that are not recorded in its Inventories yet. While a stack is being created one
// reconciliation follows another, and each would write most of the Inventories again. After a crash, the labels of the children
// identify those whose entries were lost.
type Pending struct {
	entries []keeper.InventoryEntry
	since   time.Time
}

// Entries returns the entries that are not recorded yet.
func (p *Pending) Entries() []keeper.InventoryEntry { return p.entries }

// Set replaces the entries.
func (p *Pending) Set(entries []keeper.InventoryEntry) { p.entries = entries }

// Defer reports whether the record may wait for the next reconciliation, and until when. follows says that another reconciliation
// follows because this one wrote children, and that none was deleted.
func (p *Pending) Defer(now time.Time, follows bool) (until time.Time, deferred bool) {
	if p.since.IsZero() {
		p.since = now
	}
	until = p.since.Add(maxPending)
	if !follows || !now.Before(until) {
		p.since = time.Time{}
		return time.Time{}, false
	}
	return until, true
}
