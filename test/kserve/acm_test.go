//go:build realacm

package kserve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm"
)

// TestRealRuntime runs the participant as it is shipped on ONAP's own runtime, and prints how long each order takes.
func TestRealRuntime(t *testing.T) {
	r := newRealACM(t)
	t.Run("WholeLifecycle", func(t *testing.T) { wholeLifecycle(t, r) })
	t.Run("OrdersWhileAway", func(t *testing.T) { ordersWhileAway(t, r) })
	// What judges the recording gives orders on instances with one element alone.
	r.record(os.Getenv("RUNTIME_RECORDING"))
	t.Run("RollbackOfAMigration", func(t *testing.T) { rollbackOfAMigration(t, r) })
}

// wholeLifecycle gives every order of the runtime once.
func wholeLifecycle(t *testing.T, r *realACM) {
	s := r.site(t, nil)
	c := s.commissioned("ONAP", 1)
	model := func(replicas int, fails string) map[string]any {
		spec := sklearn(replicas)
		spec["predictor"].(map[string]any)["annotations"] = map[string]any{"devcluster.mlkeeper.dev/fail": fails}
		return s.model("sklearn-iris", spec)
	}
	good := model(1, "")
	i := s.deployed(c, good)
	deployed := s.is(i, "DEPLOYED NO_ERROR")

	s.timed("update to a bad model: TIMEOUT", s.changing(i, merge(model(1, "Error"), "updateTimeoutMs", 3000), nil), s.is(i, "UPDATING TIMEOUT"))
	s.timed("what it waits for is told", done, func() error {
		got, err := s.state(i)
		if text := fmt.Sprint(got.Elements[i.element].OutProperties["message"]); err == nil && !strings.Contains(text, "sklearn-iris") {
			err = fmt.Errorf("%w: outProperties are %v", errNotYet, got.Elements[i.element].OutProperties)
		}
		return err
	})
	s.timed("UPDATE, back", s.changing(i, merge(good, "updateTimeoutMs", 36000), nil), deployed)
	s.timed("UPDATE", s.changing(i, model(2, ""), nil), deployed)
	s.replicas(2)
	s.timed("UNLOCK", s.ordering(i, "UNLOCK"), s.locked(i, acm.Unlocked))
	s.timed("LOCK", s.ordering(i, "LOCK"), s.locked(i, acm.Locked))
	s.timed("REVIEW", s.ordering(i, "REVIEW"), deployed)
	s.timed("update that is refused: FAILED", s.changing(i, map[string]any{"payload": "{"}, nil), s.is(i, "UPDATING FAILED"))
	s.timed("rollback", s.rollingBack(i), deployed)
	s.replicas(2)

	s.refusedWhileDeployed(i)

	other := s.commissioned("another", 1)
	target := map[string]any{"compositionTargetId": other}
	s.timed("MIGRATE_PRECHECK", s.changing(i, model(3, ""), merge(target, "precheck", true)), deployed)
	s.replicas(2)
	s.timed("migration that is refused: FAILED", s.changing(i, map[string]any{"payload": "{"}, target), s.is(i, "MIGRATING FAILED"))
	s.timed("rollback", s.rollingBack(i), deployed)
	s.replicas(2)
	s.timed("MIGRATE", s.changing(i, model(3, ""), target), func() error {
		i.composition = other
		return deployed()
	})
	s.replicas(3)

	s.timed("UNDEPLOY", s.ordering(i, "UNDEPLOY"), s.is(i, "UNDEPLOYED NO_ERROR"))
	if got := s.service("sklearn-iris"); got != nil {
		t.Errorf("after the removal there is %v", got)
	}
	s.refused(i, "UNDEPLOY", "LOCK", "UNLOCK", "REVIEW")
	s.timed("PREPARE", s.ordering(i, "PREPARE"), s.is(i, "UNDEPLOYED NO_ERROR"))
	s.deleted(i)
	s.c.Eventually(t, patience, func() error {
		if e := s.element(i.element); e != nil {
			return fmt.Errorf("%w: the element is still there: %+v", errNotYet, e.Status)
		}
		return nil
	})
	s.forget(c)
	s.forget(other)

	s.leaves()
}

// leaves has the participant stop: who does so in good order says it, and is given no orders.
func (s *realSite) leaves() {
	s.t.Helper()
	last := s.commissioned("last", 1)
	s.operator.Stop()
	s.timed("deregister", done, func() error {
		if err := s.online(); err == nil {
			return fmt.Errorf("%w: the participant is ON_LINE", errNotYet)
		}
		return nil
	})
	s.notTaken(func() error {
		return s.acm.ask(http.MethodPut, "/compositions/"+last, map[string]any{"primeOrder": "DEPRIME"}, nil)
	})
	s.run()
	s.timed("register", done, s.online)
	s.forget(last)
}

// refusedWhileDeployed gives what cannot be ordered of an instance that is deployed.
func (s *realSite) refusedWhileDeployed(i *realInstance) {
	s.t.Helper()
	s.refused(i, "DEPLOY", "LOCK", "PREPARE")
	s.notTaken(s.rollingBack(i))
	s.notTaken(func() error { return s.acm.ask(http.MethodDelete, i.path(), nil, nil) })
	s.notTaken(func() error {
		return s.acm.ask(http.MethodPut, "/compositions/"+i.composition, map[string]any{"primeOrder": "DEPRIME"}, nil)
	})
}

// refused checks that the runtime refuses orders, as the stand-in does in the state of the instance.
func (s *realSite) refused(i *realInstance, orders ...string) {
	s.t.Helper()
	for _, order := range orders {
		s.notTaken(s.ordering(i, order))
	}
}

func (s *realSite) notTaken(give func() error) {
	s.t.Helper()
	err := give()
	if !errors.Is(err, errRefused) {
		s.t.Errorf("an order is not refused: %v", err)
	}
	s.t.Logf("as it should: %v", err)
}

// forget deprimes a composition and decommissions it.
func (s *realSite) forget(composition string) {
	s.t.Helper()
	s.prime(composition, "DEPRIME", "COMMISSIONED")
	s.timed("decommission", func() error { return s.acm.ask(http.MethodDelete, "/compositions/"+composition, nil, nil) }, done)
}

// changing makes the function that orders an update, or a migration.
func (s *realSite) changing(i *realInstance, properties, more map[string]any) func() error {
	return func() error { return s.change(i, properties, more, nil) }
}

func (s *realSite) rollingBack(i *realInstance) func() error {
	return func() error { return s.acm.ask(http.MethodPost, i.path()+"/rollback", nil, nil) }
}

// replicas checks how many replicas the service has.
func (s *realSite) replicas(want int64) {
	s.t.Helper()
	if err := wantReplicas(s.service("sklearn-iris"), want); err != nil {
		s.t.Error(err)
	}
}

// rollbackOfAMigration is TestRollbackOfAMigration on the real runtime.
func rollbackOfAMigration(t *testing.T, r *realACM) {
	s := r.site(t, nil)
	c, to := s.commissioned("ONAP", 2), s.commissioned("another", 2)
	removed := &realInstance{composition: c, element: uuid.NewString(), another: uuid.NewString(), properties: s.model("removed", sklearn(1))}
	i := s.instantiate(removed, s.model("kept", sklearn(1)))
	s.timed("DEPLOY, two elements", s.ordering(i, "DEPLOY"), s.is(i, "DEPLOYED NO_ERROR"))

	added := *i
	added.another, added.properties = uuid.NewString(), s.model("added", sklearn(1))
	s.timed("migration that fails", s.changing(&added, map[string]any{"payload": "{"}, map[string]any{"compositionTargetId": to}), s.is(i, "MIGRATING FAILED"))
	// The runtime's scan writes over an order that is given while it takes in an acknowledgement, so each is waited for.
	s.timed("what has not failed of it", done, func() error {
		got, err := s.state(i)
		if err == nil && (got.Elements[added.another].DeployState != "DEPLOYED" || got.Elements[i.another].DeployState != "DELETED") {
			err = fmt.Errorf("%w: the instance is %+v", errNotYet, got)
		}
		return err
	})
	s.timed("rollback", s.rollingBack(i), s.is(i, "DEPLOYED NO_ERROR"))
	for name, want := range map[string]int64{"kept": 1, "removed": 1, "added": -1} {
		if err := wantReplicas(s.service(name), want); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.timed("UNDEPLOY", s.ordering(i, "UNDEPLOY"), s.is(i, "UNDEPLOYED NO_ERROR"))
	s.deleted(i)
	s.forget(c)
	s.forget(to)
}

// away is what the runtime orders while the participant is away, and in which state everything is once it has come back.
type away struct {
	// running says that the instance is deployed before.
	running  bool
	order    func(s *realSite, i *realInstance, other string)
	state    string
	replicas int64
}

// ordersWhileAway: the runtime's time for an order ends while the participant is away, which has crashed. When it comes back, it ends in the
// state that the runtime names.
func ordersWhileAway(t *testing.T, r *realACM) {
	for name, a := range map[string]away{
		"Deploy": {order: deployLate, state: "DEPLOYED", replicas: 1},
		"DeployAndUndeploy": {order: func(s *realSite, i *realInstance, _ string) {
			deployLate(s, i, "")
			s.timed("UNDEPLOY: TIMEOUT", s.ordering(i, "UNDEPLOY"), s.is(i, "UNDEPLOYING TIMEOUT"))
		}, state: "UNDEPLOYED", replicas: -1},
		"Update": {running: true, order: updateLate(3), state: "DEPLOYED", replicas: 3},
		"TwoUpdates": {running: true, order: func(s *realSite, i *realInstance, _ string) {
			updateLate(3)(s, i, "")
			updateLate(4)(s, i, "")
		}, state: "DEPLOYED", replicas: 4},
		"UpdateAndRollback": {running: true, order: func(s *realSite, i *realInstance, _ string) {
			updateLate(3)(s, i, "")
			s.timed("rollback", s.rollingBack(i), done)
		}, state: "DEPLOYED", replicas: 1},
		"UpdateAndUndeploy": {running: true, order: func(s *realSite, i *realInstance, _ string) {
			updateLate(3)(s, i, "")
			s.timed("UNDEPLOY", s.ordering(i, "UNDEPLOY"), done)
		}, state: "UNDEPLOYED", replicas: -1},
		"Migrate": {running: true, order: func(s *realSite, i *realInstance, other string) {
			s.timed("MIGRATE: TIMEOUT", s.changing(i, s.model("sklearn-iris", sklearn(3)), map[string]any{"compositionTargetId": other}),
				s.is(i, "MIGRATING TIMEOUT"))
			i.composition = other
		}, state: "DEPLOYED", replicas: 3},
	} {
		t.Run(name, func(t *testing.T) { orderWhileAway(t, r, a) })
	}
}

func orderWhileAway(t *testing.T, r *realACM, a away) {
	s := r.site(t, func(next acm.Transport) acm.Transport { return killed{next} })
	c, other := s.commissioned("ONAP", 1), s.commissioned("another", 1)
	properties := s.model("sklearn-iris", sklearn(1))
	for _, order := range []string{"deploy", "undeploy", "update", "migrate"} {
		properties[order+"TimeoutMs"] = 2000
	}
	i := s.instantiated(c, properties)
	if a.running {
		s.timed("DEPLOY", s.ordering(i, "DEPLOY"), s.is(i, "DEPLOYED NO_ERROR"))
	}
	s.operator.Stop()
	a.order(s, i, other)
	s.run()
	s.timed("after the return: "+a.state, done, s.is(i, a.state+" NO_ERROR"))
	// It stays so, and nothing waits.
	s.c.Consistently(t, 3*time.Second, func() error { return s.settled(i, a) })

	if a.state == "DEPLOYED" {
		s.timed("UNDEPLOY", s.ordering(i, "UNDEPLOY"), s.is(i, "UNDEPLOYED NO_ERROR"))
	}
	s.deleted(i)
	s.forget(c)
	s.forget(other)
}

// settled says whether everything is in the state that the runtime names, with nothing that waits.
func (s *realSite) settled(i *realInstance, a away) error {
	pending := &keeper.PendingOrderList{}
	if err := s.c.Client.List(context.Background(), pending); err != nil {
		return err
	}
	var errs []error
	for _, one := range pending.Items {
		errs = append(errs, fmt.Errorf("an order waits: %+v", one.Spec))
	}
	if e := s.element(i.element); e == nil || e.Status.DeployState != a.state {
		errs = append(errs, fmt.Errorf("the element is %+v", e))
	}
	return errors.Join(append(errs, s.is(i, a.state+" NO_ERROR")(), wantReplicas(s.service("sklearn-iris"), a.replicas))...)
}

func deployLate(s *realSite, i *realInstance, _ string) {
	s.t.Helper()
	s.timed("DEPLOY: TIMEOUT", s.ordering(i, "DEPLOY"), s.is(i, "DEPLOYING TIMEOUT"))
}

func updateLate(replicas int) func(*realSite, *realInstance, string) {
	return func(s *realSite, i *realInstance, _ string) {
		s.t.Helper()
		s.timed("UPDATE: TIMEOUT", s.changing(i, s.model("sklearn-iris", sklearn(replicas)), nil), s.is(i, "UPDATING TIMEOUT"))
	}
}
