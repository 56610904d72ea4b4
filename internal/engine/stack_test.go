package engine

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/room"
)

// TestADefinitionIsAskedForByItsName has a kind whose plural nobody guesses. A definition of another name is not found, for which the
// teardown would remove everything of every custom resource (law 4).
func TestADefinitionIsAskedForByItsName(t *testing.T) {
	def := room.Definition[*keeper.Inventory]{
		Room: "servers", GVK: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Chassis"}, Resource: "chassis",
	}
	s := &stacks[*keeper.Inventory, any]{def: def}
	if got := s.groupResource().String(); got != "chassis.example.com" {
		t.Errorf("asked for is %s", got)
	}
	def.Resource = ""
	if err := Register[*keeper.Inventory, any](&Engine{}, def, nil); err == nil {
		t.Error("a room that names no resource is registered")
	}
}
