package engine

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/inventory"
)

// openingCache has one Inventory until the watch is complete, which it is as soon as somebody has looked.
type openingCache struct {
	inventory.Cache
	looked bool
}

func (c *openingCache) IndexedResources(schema.GroupKind, string) []metav1.Object {
	c.looked = true
	return []metav1.Object{&keeper.Inventory{}}
}

func (c *openingCache) ResourceSynced(schema.GroupKind) bool { return c.looked }

// TestInventoriesAreMadeOnceAllWereSeen: the watch that is complete by the time of the writes tells nothing of what was looked up before.
func TestInventoriesAreMadeOnceAllWereSeen(t *testing.T) {
	s, _ := bareStacks()
	s.inventories = inventory.New(inventory.Options{Cache: &openingCache{}, Catalog: s.catalog})
	if err := s.resolveOwners(t.Context(), passOf("a", newState("uid"), "")); !errors.Is(err, errInventoriesUnseen) {
		t.Errorf("before all were seen: %v", err)
	}
}
