package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/internal/requests"
	"mlkeeper.dev/internal/version"
)

// managerFlags are the flags of `mlkeeper manager`. Those that controller-runtime's users know keep their names.
type managerFlags struct {
	controllers           []string
	namespaces            []string
	shards                int
	concurrency           int
	metricsAddress        string
	metricsSecure         bool
	probeAddress          string
	pprofAddress          string
	leaderElect           bool
	leaseDuration         time.Duration
	renewDeadline         time.Duration
	retryPeriod           time.Duration
	logFormat             string
	logLevel              int
	gracefulShutdownAfter time.Duration
}

// newManagerCommand is `mlkeeper manager`: the operator itself.
func newManagerCommand(connect connection) *cobra.Command {
	var f managerFlags
	var s settings
	cmd := &cobra.Command{
		Use:   "manager",
		Short: "Run the operator: keep every declared system as declared",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			setLogger(f)
			defer s.sources.close()
			if err := errors.Join(s.check(), checkProfiler(f.pprofAddress), checkControllers(f.controllers), checkLeases(f)); err != nil {
				return err
			}
			cfg, err := connect.config()
			if err != nil {
				return err
			}
			mgr, err := buildManager(cfg, f, s)
			if err != nil {
				return err
			}
			return mgr.Start(ctrl.SetupSignalHandler())
		},
	}
	bindManager(cmd.Flags(), &f, &s)
	return cmd
}

// bindManager adds the flags of the manager.
func bindManager(flags *pflag.FlagSet, f *managerFlags, s *settings) {
	flags.StringSliceVar(&f.controllers, "controllers", controllerNames(), "controllers that are switched on; given more than once, all that are named")
	flags.StringSliceVar(&f.namespaces, "namespaces", nil, "namespaces to watch; all when empty")
	flags.IntVar(&f.shards, "shards", 1,
		"number of parts that the namespaces are divided into; with --leader-elect the managers share them evenly")
	flags.IntVar(&f.concurrency, "concurrency", 16, "reconciles per kind that run at once")
	flags.StringVar(&f.metricsAddress, "metrics-bind-address", ":8080", "address of the metrics endpoint; 0 switches it off")
	flags.BoolVar(&f.metricsSecure, "metrics-secure", true,
		"serve metrics over TLS to callers that Kubernetes authenticates and authorizes, as the ClusterRole mlkeeper-metrics-reader does; else to everybody")
	flags.StringVar(&f.probeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 switches it off")
	flags.StringVar(&f.pprofAddress, "pprof-bind-address", "0",
		"loopback address of net/http/pprof, such as 127.0.0.1:6060; 0 switches it off")
	flags.BoolVar(&f.leaderElect, "leader-elect", false, "elect one leader among several managers; the others stand by, warm, or hold other --shards")
	flags.DurationVar(&f.leaseDuration, "leader-elect-lease-duration", 15*time.Second, "how long a lease lasts unrenewed")
	flags.DurationVar(&f.renewDeadline, "leader-elect-renew-deadline", 10*time.Second, "how long the leader tries to renew")
	flags.DurationVar(&f.retryPeriod, "leader-elect-retry-period", 2*time.Second, "how often a standby tries")
	flags.StringVar(&f.logFormat, "log-format", "json", "json or text")
	flags.IntVar(&f.logLevel, "v", 0, "log verbosity")
	flags.DurationVar(&f.gracefulShutdownAfter, "graceful-shutdown-timeout", 20*time.Second,
		"how long running reconciles may take to finish at shutdown")
	s.bind(flags)
	flags.StringVar(&s.operatorNamespace, "leader-election-namespace", s.operatorNamespace,
		"namespace of the operator, with its leases and the Secret mlkeeper-digest-key; the manager's own by default, which only a pod knows")
}

// checkProfiler refuses an address of the profiler that others can reach: it asks nobody who they are, and heaps hold Secrets.
func checkProfiler(address string) error {
	if address == "" || address == "0" {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && (host == "localhost" || ip != nil && ip.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("--pprof-bind-address %q: profiles hold what is in memory, and are served without authentication: "+
		"write 127.0.0.1 and a port, and reach it by kubectl port-forward", address)
}

// checkControllers refuses to run without a controller, as config/operator does by itself, and names that there are not.
func checkControllers(names []string) error {
	known := strings.Join(controllerNames(), ", ")
	if len(names) == 0 {
		return fmt.Errorf("--controllers names none: switch on a component of config/components that adds one, or name some of %s", known)
	}
	for _, name := range names {
		if !slices.Contains(controllerNames(), name) {
			return fmt.Errorf("--controllers: there is no controller %q; there are %s", name, known)
		}
	}
	return nil
}

// buildManager puts the manager, the engine and the controllers together.
func buildManager(cfg *rest.Config, f managerFlags, s settings) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	for _, add := range schemes() {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	shards, err := newShards(f)
	if err != nil {
		return nil, err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // The API server's priority and fairness decides, not a limit of the client's.
	cfg.UserAgent = "mlkeeper/" + version.Version
	requests.Count(cfg)
	if err := s.sources.refuseCluster(cfg, ctrl.Log); err != nil {
		return nil, err
	}
	lease := &warmLease{}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme, Metrics: metricsOptions(f), HealthProbeBindAddress: f.probeAddress,
		PprofBindAddress: f.pprofAddress,
		LeaderElection:   f.leaderElect, LeaderElectionResourceLockInterface: lease, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &f.leaseDuration, RenewDeadline: &f.renewDeadline, RetryPeriod: &f.retryPeriod,
		GracefulShutdownTimeout: &f.gracefulShutdownAfter, Logger: ctrl.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	garbage := newCollector()
	e, err := engine.New(mgr, engine.Options{
		OperatorNamespace: s.operatorNamespace, Namespaces: f.namespaces, Shards: shards, Concurrency: f.concurrency,
		Rendering: garbage.rendering, Log: ctrl.Log,
	})
	if err != nil {
		return nil, err
	}
	garbage.ready = e.Ready
	for _, r := range registrations() {
		if !slices.Contains(f.controllers, r.name) {
			continue
		}
		if err := r.register(e, s); err != nil {
			return nil, err
		}
	}
	if s.participant != "" {
		if err := addParticipant(mgr, e, s.participant, f.controllers); err != nil {
			return nil, err
		}
	}
	return mgr, errors.Join(
		lease.open(cfg, mgr, f, s.operatorNamespace, shards, e.Warm),
		mgr.Add(garbage),
		mgr.AddHealthzCheck("healthz", func(*http.Request) error { return nil }),
		mgr.AddReadyzCheck("readyz", func(*http.Request) error { return e.Ready() }),
	)
}

// metricsOptions are those of the endpoint for metrics.
func metricsOptions(f managerFlags) metricsserver.Options {
	out := metricsserver.Options{BindAddress: f.metricsAddress}
	if f.metricsSecure {
		out.SecureServing, out.FilterProvider = true, filters.WithAuthenticationAndAuthorization
	}
	return out
}

// setLogger sends the logs of controller-runtime and client-go to one structured log on stderr.
func setLogger(f managerFlags) {
	opts := &slog.HandlerOptions{Level: slog.Level(-f.logLevel)}
	var handler slog.Handler = slog.NewJSONHandler(os.Stderr, opts)
	if f.logFormat == "text" {
		handler = slog.NewTextHandler(os.Stderr, opts)
	}
	log := logr.FromSlogHandler(handler)
	ctrl.SetLogger(log)
	klog.SetLogger(log)
}
