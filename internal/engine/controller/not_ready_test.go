package controller

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

func TestWhatHasFailedIsToldBeforeWhatIsWaitedFor(t *testing.T) {
	state := func(status health.Status, message string) State {
		return State{Observed: &observe.Object{Health: health.Result{Status: status, Message: message}}}
	}
	key := func(kind string) plan.Key {
		return plan.Key{GroupKind: schema.GroupKind{Kind: kind}, Namespace: "ns", Name: "one"}
	}
	all := []struct {
		kind  string
		state State
	}{
		{"Job", state(health.Failed, "It failed.")},
		{"ConfigMap", State{}},
		{"Workload", state(health.Failed, "It failed, too.")},
		{"Deployment", state(health.InProgress, "It comes.")},
	}
	for range all {
		var reason NotReadyReason
		for _, one := range all {
			reason.Add(key(one.kind), one.state)
		}
		if want := "waiting for Job ns/one: It failed."; reason.Text != want {
			t.Errorf("%v: %q, not %q", all, reason.Text, want)
		}
		all = slices.Concat(all[1:], all[:1])
	}
	var reason NotReadyReason
	for _, one := range all[1:4:4] {
		if one.state.Observed == nil || one.state.Observed.Health.Status != health.Failed {
			reason.Add(key(one.kind), one.state)
		}
	}
	if want := "waiting for ConfigMap ns/one to exist"; reason.Text != want {
		t.Errorf("%q, not %q", reason.Text, want)
	}
}
