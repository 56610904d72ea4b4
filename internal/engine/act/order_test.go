package act

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
)

// TestTheDecisionsKeepTheirOrder: writes begin in an order of their own, and what was decided is not put into another.
func TestTheDecisionsKeepTheirOrder(t *testing.T) {
	action := func(group, kind string) decide.Action {
		return decide.Action{Verb: decide.Create, Key: plan.Key{GroupKind: schema.GroupKind{Group: group, Kind: kind}, Name: kind}}
	}
	decided := []decide.Action{action("apps", "Deployment"), {Verb: decide.Leave}, action("", "Service"), action("", "ConfigMap")}
	before := slices.Clone(decided)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var begun []string
	for _, r := range (&Actor{}).Do(ctx, Request{Actions: decided}) {
		begun = append(begun, r.Action.Key.Kind)
	}
	if want := []string{"ConfigMap", "Service", "Deployment"}; !slices.Equal(begun, want) {
		t.Errorf("the order is %q, want %q", begun, want)
	}
	for i := range decided {
		if decided[i].Key != before[i].Key {
			t.Fatal("the decisions themselves were put into another order")
		}
	}
}
