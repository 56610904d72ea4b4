package engine

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/inventory"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/watch"
)

// anyChildren says that users choose the kinds of the children.
func (s *stacks[C, F]) anyChildren() bool { return s.def.AnyChildren }

// watchKinds watches the kinds of a custom resource's inventory and plan.
func (s *stacks[C, F]) watchKinds(owner types.UID, entries map[plan.Key]keeper.InventoryEntry, stages [][]plan.Stamped) {
	if s.def.AnyChildren {
		s.children.Add(watch.KindReferrer{UID: owner}, append(kindsOf(maps.Values(entries)), plannedKinds(stages)...))
	}
}

// endUnusedWatches ends, after a reconcile, the watches on the kinds that the custom resource has no longer, unless another one has them.
// The cached children count, too: a failed write of the status may have left one in no inventory.
func (s *stacks[C, F]) endUnusedWatches(p *reconciliation[C, F]) {
	if !s.def.AnyChildren || p.gatherFailed {
		return
	}
	kinds := kindsOf(slices.Values(p.remaining))
	for _, child := range s.informers.ChildrenOfStack(s.def.Controller, p.stack.Hash()) {
		kinds = append(kinds, schema.FromAPIVersionAndKind(child.APIVersion, child.Key.Kind))
	}
	s.children.Set(watch.KindReferrer{UID: p.stack.UID}, append(kinds, plannedKinds(p.stamped)...))
}

// releaseKinds ends the watches that only a custom resource needed which is gone. Its Inventories, if there are any, need them until
// they are finalized.
func (s *stacks[C, F]) releaseKinds(key client.ObjectKey, uid types.UID) {
	if !s.def.AnyChildren || uid == "" {
		return
	}
	if inventories := s.inventories.Of(string(uid)); len(inventories) > 0 && s.Shards.Holds(key) && s.mayFinalize(key.Namespace) {
		s.watchFinalization(uid, inventory.Entries(inventories))
		s.enqueueFinalization(key.Namespace, string(uid)) // They may be gone since they were listed.
	}
	s.children.Release(watch.KindReferrer{UID: uid})
}

// childWatchError returns what keeps the watch on a kind from opening, and for a kind that a user chose, who may say so.
func (s *stacks[C, F]) childWatchError(gk schema.GroupKind) error {
	err := s.informers.ChildWatchError(gk, s.def.Controller)
	if s.def.AnyChildren && apierrors.IsForbidden(err) {
		return fmt.Errorf("%w; `mlkeeper rbac -f` prints the ClusterRole with which MLKeeper may watch the kinds of a custom resource", err)
	}
	return err
}

// watchFinalization watches the kinds that the Inventories of a custom resource list which is gone. It reports whether the caches have all
// children of these kinds, but for those that cannot be watched.
func (s *stacks[C, F]) watchFinalization(uid types.UID, listed map[plan.Key]keeper.InventoryEntry) (synced bool) {
	if !s.def.AnyChildren {
		return true
	}
	s.children.Add(watch.KindReferrer{UID: uid, Finalizing: true}, kindsOf(maps.Values(listed)))
	for key := range listed {
		if !s.informers.ChildSynced(key.GroupKind, s.def.Controller) && s.informers.ChildWatchError(key.GroupKind, s.def.Controller) == nil {
			return false
		}
	}
	return true
}

// finalized ends the watches that only the Inventories of a custom resource needed, the last of which is gone.
func (s *stacks[C, F]) finalized(uid types.UID) {
	if s.def.AnyChildren {
		s.children.Release(watch.KindReferrer{UID: uid, Finalizing: true})
	}
}

func kindsOf(entries iter.Seq[keeper.InventoryEntry]) []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for e := range entries {
		out = append(out, plan.KeyOfEntry(e).WithVersion(e.Version))
	}
	return out
}

func plannedKinds(stages [][]plan.Stamped) []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for _, stage := range stages {
		for _, o := range stage {
			out = append(out, o.Desired.GroupVersionKind())
		}
	}
	return out
}

// watchAllKinds has its custom resources enqueued when any kind comes or goes.
func (s *stacks[C, F]) watchAllKinds() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allKinds = true
}

// watchGroup remembers a group of whose APIs the controller asks by version, so that its custom resources are enqueued when they change.
func (s *stacks[C, F]) watchGroup(group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.groups == nil {
		s.groups = map[string]bool{}
	}
	s.groups[group] = true
}
