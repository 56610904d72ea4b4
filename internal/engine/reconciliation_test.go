package engine

import (
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/observe"
)

// TestADefinitionIsLookedAtAgainWhenItIsCurrent: a health that changes by time alone causes no watch event.
func TestADefinitionIsLookedAtAgainWhenItIsCurrent(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1e9, 0))
	s := &stacks[*keeper.Inventory, any]{Engine: &Engine{Options: Options{Clock: clock}}}
	definition := &observe.Object{Health: health.Result{Status: health.Current, NotBefore: clock.Now().Add(time.Second)}}
	p := &reconciliation[*keeper.Inventory, any]{}
	if got := s.settling(p, definition); got.Health.Status != health.InProgress || !p.nextAt.Equal(definition.Health.NotBefore) {
		t.Errorf("it is %s, and looked at again at %s", got.Health.Status, p.nextAt)
	}
	if definition.Health.Status != health.Current {
		t.Error("what the watch has is changed")
	}
	clock.Step(time.Second)
	p = &reconciliation[*keeper.Inventory, any]{}
	if got := s.settling(p, definition); got != definition || !p.nextAt.IsZero() {
		t.Errorf("then it is %s, and looked at again at %s", got.Health.Status, p.nextAt)
	}
}
