package idle

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

// number is how many services there are, half of them of each shape.
const number = 10

// world is a cluster with an operator, services and a Tfserv that are all Ready.
type world struct {
	cluster  *cluster.Cluster
	operator *harness.Operator
	services []*fixture.Service
}

func newWorld(t *testing.T, services int) *world {
	t.Helper()
	// What another test leaves behind would not be idle, so each has a cluster of its own.
	c := cluster.Start(t, fixture.CRDs())
	c.InstallCRDs(t)
	w := &world{cluster: c}
	w.start(t)
	tfserv := c.Apply(t, "../testdata/seeds/tfserv.yaml", c.Namespace(t))[2]
	for i := range services {
		w.services = append(w.services, fixture.Create(t, c, fixture.Shapes[i%len(fixture.Shapes)]))
	}
	for _, s := range w.services {
		s.AwaitReady(t, c)
	}
	cluster.Eventually(t, time.Minute, func() error {
		live := c.Get(t, tfserv.GroupVersionKind(), tfserv.GetNamespace(), tfserv.GetName())
		if conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions"); !isReady(conditions) {
			return fmt.Errorf("the Tfserv is not Ready: %v", conditions)
		}
		// Models of which a version is missing are asked for again and again, with growing pauses that may be longer than a look.
		models, _, _ := unstructured.NestedSlice(live.Object, "status", "models")
		missing := func(m any) bool { return m.(map[string]any)["state"] != "AVAILABLE" } //nolint:forcetypeassert // The schema says so.
		if len(models) == 0 || slices.ContainsFunc(models, missing) {
			return fmt.Errorf("not every version is available: %v", models)
		}
		return nil
	})
	return w
}

// start starts an operator, where none runs any more.
func (w *world) start(t *testing.T) {
	t.Helper()
	w.operator = harness.Start(t, w.cluster, harness.Options{Manager: func(o *manager.Options) {
		o.LeaderElection, o.LeaderElectionID, o.LeaderElectionNamespace = true, "idle", cluster.OperatorNamespace
		o.LeaderElectionReleaseOnCancel = true
		// The API server may take its time to come back on a busy machine, and the lease must outlive that.
		duration, deadline := 2*time.Minute, 90*time.Second
		o.LeaseDuration, o.RenewDeadline = &duration, &deadline
	}}, fixture.Controller(), fixture.TfservController("", fixture.Serving(fixture.TutorialVersion)))
}

func isReady(conditions []any) bool {
	return slices.ContainsFunc(conditions, func(c any) bool {
		m, _ := c.(map[string]any)
		return m["type"] == "Ready" && m["status"] == "True"
	})
}

// lookOn is for how long the operator is looked at.
func lookOn(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("MLKEEPER_IDLE")
	if text == "" {
		return 20 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("MLKEEPER_IDLE: %v", err)
	}
	return d
}

// activity is what the operator has done up to a moment.
type activity struct {
	requests map[cluster.Request]int
	// reconciles counts by controller: those of the custom resources, of the Inventories and of the wires.
	reconciles map[string]float64
}

func (w *world) activity(t *testing.T) activity {
	t.Helper()
	return activity{requests: w.operator.Requests.Snapshot(), reconciles: harness.Reconciles(t)}
}

// settle waits until the operator has had nothing to do for three seconds.
func (w *world) settle(t *testing.T) {
	t.Helper()
	const calm = 3 * time.Second
	last, since := w.activity(t), time.Now()
	cluster.Eventually(t, 2*time.Minute, func() error {
		if err := w.idleSince(t, last); err != nil {
			last, since = w.activity(t), time.Now()
			return err
		}
		if time.Since(since) < calm {
			return errors.New("not calm for long enough")
		}
		return nil
	})
}

// idleSince says what the operator did after an earlier moment, other than keeping its lease and its watches.
func (w *world) idleSince(t *testing.T, earlier activity) error {
	t.Helper()
	since := w.operator.Requests.Since(earlier.requests)
	writes := cluster.Sum(since, cluster.Request.Write, "leases")
	reads := cluster.Sum(since, cluster.Request.Read, "leases")
	var busy []string
	for controller, n := range harness.Reconciles(t) {
		if n > earlier.reconciles[controller] {
			busy = append(busy, controller)
		}
	}
	if writes > 0 || reads > 0 || len(busy) > 0 {
		return fmt.Errorf("%d writes, %d live reads, reconciles by %v:\n%s", writes, reads, busy, cluster.Describe(since))
	}
	return nil
}
