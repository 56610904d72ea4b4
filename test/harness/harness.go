// Package harness runs the operator inside a test: the manager, the engine and the controllers as the binary has them, on a
// real control plane, as the operator's ServiceAccount with the roles that config/ ships, and with a count of every request
// they send.
package harness

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/test/cluster"
)

// Operator is one running manager.
type Operator struct {
	// Requests counts what the manager asked of the API server.
	Requests *cluster.Counter
	Engine   *engine.Engine

	stop func()
}

// Options change how an operator runs.
type Options struct {
	Engine  engine.Options
	Manager func(*manager.Options)
	// Add adds what runs beside the engine.
	Add func(manager.Manager, *engine.Engine) error
	// Config is changed before the clients are made, to wrap the transport for instance.
	Config func(*rest.Config)
	// Verbose prints the operator's log into the test's.
	Verbose bool
	// AllControllers gives the operator the rights of config/install.yaml as they are bound there, those of every controller. Otherwise it
	// has only those of the controllers that it runs.
	AllControllers bool
	// LeastRights leaves out what an administrator grants operators of KfDefs and SeldonOperators, which the test grants itself.
	LeastRights bool
}

// startTimeout is how long an operator may take until its watches are complete, where others start on the same machine.
const startTimeout = 2 * time.Minute

// silence keeps controller-runtime from complaining that it has no logger of its own; each operator has one.
var silence sync.Once

// Start runs an operator until the test ends or Stop is called, and waits until its watches are complete.
func Start(t testing.TB, c *cluster.Cluster, opts Options, controllers ...Register) *Operator {
	t.Helper()
	if opts.Verbose {
		opts.Engine.Log = testr.New(t.(*testing.T)) //nolint:forcetypeassert // Only tests ask for a verbose operator.
	} else {
		opts.Engine.Log = logr.Discard()
	}
	mgr, o, err := build(c, opts, controllers)
	if err != nil {
		t.Fatal(err)
	}
	running := start(mgr.Start)
	stopped := false
	o.stop = func() {
		if stopped {
			return
		}
		stopped = true
		if err := running.stop(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(o.stop)
	t.Cleanup(func() {
		// What the operator has in hand gets complete only while it runs.
		if !stopped {
			c.EveryReferenceResolves(t)
		}
	})
	cluster.Eventually(t, startTimeout, func() error {
		if err := running.died(); err != nil {
			t.Fatal(err)
		}
		return o.Engine.Ready()
	})
	return o
}

// Stop ends the operator as a SIGTERM would.
func (o *Operator) Stop() { o.stop() }

// Run runs an operator until the context is done, for tests that end operators and start others while they go on. It
// returns at once; done hears why the manager ended.
func Run(ctx context.Context, c *cluster.Cluster, opts Options, controllers ...Register) (o *Operator, done <-chan error, err error) {
	if opts.Engine.Log.GetSink() == nil {
		opts.Engine.Log = logr.Discard()
	}
	mgr, o, err := build(c, opts, controllers)
	if err != nil {
		return nil, nil, err
	}
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	o.stop = cancel
	go func() {
		defer cancel()
		ended <- mgr.Start(ctx)
	}()
	return o, ended, nil
}

// build makes a manager with an engine and its controllers.
func build(c *cluster.Cluster, opts Options, controllers []Register) (manager.Manager, *Operator, error) {
	rights, err := rightsOf(opts, controllers)
	if err != nil {
		return nil, nil, err
	}
	account, err := c.Operator(rights)
	if err != nil {
		return nil, nil, err
	}
	cfg, counter := cluster.WithCounter(account)
	if opts.Config != nil {
		opts.Config(cfg)
	}
	opts.Engine.OperatorNamespace = cmp.Or(opts.Engine.OperatorNamespace, cluster.OperatorNamespace)
	silence.Do(func() { ctrl.SetLogger(logr.Discard()) })
	mopts := ctrl.Options{
		Scheme: cluster.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		LeaderElection: false, Logger: countingPasses(opts.Engine.Log),
	}
	if opts.Manager != nil {
		opts.Manager(&mopts)
	}
	mgr, err := ctrl.NewManager(cfg, mopts)
	if err != nil {
		return nil, nil, fmt.Errorf("make the manager: %w", err)
	}
	e, err := engine.New(mgr, opts.Engine)
	if err != nil {
		return nil, nil, fmt.Errorf("make the engine: %w", err)
	}
	for _, r := range controllers {
		if err := r.add(e); err != nil {
			return nil, nil, fmt.Errorf("register a controller: %w", err)
		}
	}
	if opts.Add != nil {
		if err := opts.Add(mgr, e); err != nil {
			return nil, nil, fmt.Errorf("add to the manager: %w", err)
		}
	}
	return mgr, &Operator{Requests: counter, Engine: e}, nil
}

// Settle waits until the operator has written nothing for three seconds.
func (o *Operator) Settle(t testing.TB, patience time.Duration) {
	t.Helper()
	last, since, wrote := o.Requests.Snapshot(), time.Now(), ""
	cluster.Eventually(t, patience, func() error {
		if done := o.Requests.Since(last); cluster.Sum(done, cluster.Request.Write, "leases") > 0 {
			last, since, wrote = o.Requests.Snapshot(), time.Now(), cluster.Describe(done)
		}
		if time.Since(since) < 3*time.Second {
			return fmt.Errorf("not quiet for long enough; it wrote last:\n%s", wrote)
		}
		return nil
	})
}
