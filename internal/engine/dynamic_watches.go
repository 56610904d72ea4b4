package engine

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

// anyChildren says that users bring the kinds of the children.
func (s *stacks[C, F]) anyChildren() bool { return s.def.AnyChildren }

// watchKind watches a kind that users brought, and those that an inventory tells of after a restart.
func (s *stacks[C, F]) watchKind(gvk schema.GroupVersionKind) {
	if !s.def.AnyChildren {
		return
	}
	s.mu.Lock()
	version, known := s.watchedKinds[gvk.GroupKind()]
	s.watchedKinds[gvk.GroupKind()] = gvk.Version
	s.mu.Unlock()
	switch {
	case !known:
		s.informers.WatchChildren(gvk, s.def.Controller, s.childChanged)
	case version != gvk.Version:
		s.informers.WatchChildren(gvk, s.def.Controller, nil)
	}
}

// watchGroup remembers a group of whose APIs the controller asks by version, so that its custom resources are woken when they change.
func (s *stacks[C, F]) watchGroup(group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.groups == nil {
		s.groups = map[string]bool{}
	}
	s.groups[group] = true
}

// watchRecorded watches the kinds of an inventory.
func (s *stacks[C, F]) watchRecorded(entries map[plan.Key]keeper.InventoryEntry) {
	for key, e := range entries {
		s.watchKind(key.WithVersion(e.Version))
	}
}
