package engine

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
)

func TestWhyAWatchCannotBeOpened(t *testing.T) {
	key := plan.Key{GroupKind: schema.GroupKind{Kind: "Gizmo"}}
	actions := []decide.Action{
		{Verb: decide.Wait, Reason: decide.ReasonNotSynced, Detail: "the watch on Gizmo", Key: key},
		{Verb: decide.Wait, Reason: decide.ReasonDependency, Detail: "another", Key: key},
		{Verb: decide.Wait, Reason: decide.ReasonNotSynced, Detail: "the watch on Other"},
	}
	explainUnwatched(actions, func(gk schema.GroupKind) error {
		if gk == key.GroupKind {
			return errors.New("no answer")
		}
		return nil
	})
	for i, want := range []string{"the watch on Gizmo, which cannot be opened: no answer", "another", "the watch on Other"} {
		if got := actions[i].Detail; got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

// namedReconciler is one of which the name matters.
type namedReconciler struct {
	reconciler
	name string
}

func (n namedReconciler) controllerName() string { return n.name }

// TestAControllerWithoutRightsIsNamed: a manager that runs a controller without its role says which, and what to do.
func TestAControllerWithoutRightsIsNamed(t *testing.T) {
	own, child := schema.GroupKind{Group: "example.com", Kind: "Gizmo"}, schema.GroupKind{Kind: "Service"}
	e := &Engine{controllers: map[schema.GroupKind]reconciler{own: namedReconciler{name: "gizmos"}}}
	for gk, want := range map[schema.GroupKind]string{
		own:   "the controller gizmos runs without its rights: switch on its component in config/components, or leave it out of --controllers: no",
		child: "Service cannot be watched, `mlkeeper rbac` prints the roles: no",
	} {
		if got := e.noRights(gk, errors.New("no")).Error(); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

// TestAnOpeningWatchIsReportedInTheEnd: the wait is counted from the first reconciliation that finds the watch closed.
func TestAnOpeningWatchIsReportedInTheEnd(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1e9, 0))
	s := &stacks[*keeper.Inventory, any]{Engine: &Engine{Options: Options{Clock: clock}}}
	state := &reconcileState{}
	first := s.holdOpening(state, "ConfigMap a/b")
	clock.Step(time.Second)
	if rest := s.holdOpening(state, "ConfigMap a/b"); first <= time.Second || rest != first-time.Second {
		t.Errorf("%s are left, and a second later %s", first, rest)
	}
	clock.Step(time.Hour)
	if rest := s.holdOpening(state, "ConfigMap a/b"); rest != 0 {
		t.Errorf("%s are left", rest)
	}
}
