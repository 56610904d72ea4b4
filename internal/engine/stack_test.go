package engine

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

// TestADefinitionIsAskedForByItsName has a kind whose plural nobody guesses. A definition of another name is not found, for which the
// teardown would remove everything of every custom resource (law 4).
func TestADefinitionIsAskedForByItsName(t *testing.T) {
	def := controller.Definition[*keeper.Inventory]{
		Controller: "servers", GVK: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Chassis"}, Resource: "chassis",
	}
	s := &stacks[*keeper.Inventory, any]{def: def}
	if got := s.groupResource().String(); got != "chassis.example.com" {
		t.Errorf("asked for is %s", got)
	}
	def.Resource = ""
	if err := Register[*keeper.Inventory, any](&Engine{}, def, nil); err == nil {
		t.Error("a controller that names no resource is registered")
	}
}

// TestAJobThatWentAtOnceHasCompleted has a Job whose ttlSecondsAfterFinished is zero: no pass need have seen it complete. What is
// remembered of it stays until the ledger has it.
func TestAJobThatWentAtOnceHasCompleted(t *testing.T) {
	s := &stacks[*keeper.Inventory, any]{finished: map[plan.Key]types.UID{}}
	job := func(name, uid string, completed bool) *observe.Object {
		o := &observe.Object{Key: plan.Key{GroupKind: schema.GroupKind{Group: "batch", Kind: "Job"}, Namespace: "ns", Name: name}, Completed: completed}
		o.UID = types.UID(uid)
		return o
	}
	done, running := job("done", "1", true), job("running", "2", false)
	s.childChanged(job("done", "1", false), done)
	if s.completed(done.Key, "1", false) {
		t.Error("a Job that is there is remembered")
	}
	s.childChanged(done, nil)
	s.childChanged(running, nil)
	for range 2 {
		if !s.completed(done.Key, "1", false) {
			t.Error("a Job that had completed when it went is not known")
		}
	}
	if s.completed(done.Key, "another", false) || s.completed(running.Key, "2", false) {
		t.Error("a Job that had not completed counts as completed")
	}
	if !s.completed(done.Key, "1", true) || len(s.finished) > 0 {
		t.Errorf("what the ledger has is remembered beside it: %v", s.finished)
	}
}
