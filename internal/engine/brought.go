package engine

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

// anyChildren says that users bring the kinds of the children.
func (s *stacks[C, F]) anyChildren() bool { return s.def.AnyChildren }

// bring watches a kind that users brought, and those that a ledger tells of after a restart.
func (s *stacks[C, F]) bring(gvk schema.GroupVersionKind) {
	if !s.def.AnyChildren {
		return
	}
	s.mu.Lock()
	known := s.brought[gvk.GroupKind()]
	s.brought[gvk.GroupKind()] = true
	s.mu.Unlock()
	if !known {
		s.hub.Children(gvk, s.def.Room, s.childChanged)
	}
}

// bringRecorded watches the kinds of a ledger.
func (s *stacks[C, F]) bringRecorded(ledger map[plan.Key]keeper.LedgerEntry) {
	for key, e := range ledger {
		s.bring(key.WithVersion(e.Version))
	}
}
