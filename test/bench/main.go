// Command bench measures MLKeeper against the API-server baseline, and against a peer that is given on
// the command line. docs/performance.md says how.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"mlkeeper.dev/test/bench/internal/report"
	"mlkeeper.dev/test/bench/internal/scenario"
	"mlkeeper.dev/test/bench/internal/world"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench: "+err.Error())
		os.Exit(1)
	}
}

// errBroken is how a run ends that measured everything and found a promise broken.
var errBroken = errors.New("thresholds are broken")

func run() error {
	log.SetLogger(logr.Discard())
	var f flags
	f.bind(flag.CommandLine)
	flag.Parse()
	selected, err := f.scenarios()
	if err != nil {
		return err
	}
	config := f.config()
	thresholds, err := report.ReadThresholds(f.thresholds)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(config.Out, 0o755); err != nil {
		return err
	}
	// A signal ends the run in order: no cluster and no operator stays behind.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	result := &report.Result{
		Started: time.Now(), Quick: config.Quick, Version: version(ctx, config.Operator), Machine: report.Machine(),
		Settings: f.settings(config), Mix: map[string][]string{},
	}
	failed := scenario.New(config, result, os.Stdout).Run(ctx, selected)
	result.Took = time.Since(result.Started).Round(time.Second).String()
	var ran []string
	for _, s := range selected {
		ran = append(ran, s.Name)
	}
	broken := result.Judge(thresholds, ran)
	if err := write(result, config.Out); err != nil {
		return err
	}
	switch {
	case failed != nil:
		return failed
	case broken > 0 && !config.Quick:
		return fmt.Errorf("%d %w", broken, errBroken)
	}
	return nil
}

// write writes the table, the JSON and the page.
func write(result *report.Result, dir string) error {
	table, err := os.Create(filepath.Join(dir, "table.txt"))
	if err != nil {
		return err
	}
	defer func() { _ = table.Close() }()
	fmt.Println()
	err = errors.Join(
		result.WriteTable(os.Stdout), result.WriteTable(table),
		result.WriteJSON(filepath.Join(dir, "result.json")), result.WriteHTML(filepath.Join(dir, "report.html")),
	)
	fmt.Printf("\n%s\n", filepath.Join(dir, "report.html"))
	return err
}

func version(ctx context.Context, binary string) string {
	out, err := exec.CommandContext(ctx, binary, "--version").Output()
	if err != nil {
		return "unknown version"
	}
	return strings.TrimSpace(string(out))
}

// flags are the settings of a run.
type flags struct {
	scenario.Config
	only, thresholds string
}

func (f *flags) bind(set *flag.FlagSet) {
	set.StringVar(&f.Operator, "mlkeeper", "bin/mlkeeper", "the operator")
	set.StringVar(&f.Devcluster, "devcluster", "bin/devcluster", "the control plane")
	set.StringVar(&f.Manifest, "manifest", "config/install.yaml", "definitions and roles of the operator")
	set.StringVar(&f.Out, "out", "bin/bench", "folder of the results")
	set.StringVar(&f.Kustomize, "kustomize", "bin/tools/kustomize", "the tool that KfDef is compared with")
	set.StringVar(&f.Kubeflow, "kubeflow", "test/testdata/kubeflow", "folder with the KfDef and the archive of Kubeflow 1.2")
	set.StringVar(&f.Manifests, "manifests", os.Getenv("MANIFESTS"), "checkout of github.com/kubeflow/manifests v1.11.0, for kfdef111")
	set.Func("manifests-map", "FROM=TO: where what these refer to by address comes from, such as a mirror; repeatable", func(value string) error {
		f.ManifestsMap = append(f.ManifestsMap, value)
		return nil
	})
	set.StringVar(&f.Helm, "helm", "bin/tools/helm", "the tool that SeldonOperator is compared with")
	set.StringVar(&f.Charts, "charts", "hack/demo/seldon/charts", "folder with the charts that both install")
	set.StringVar(&f.thresholds, "thresholds", "test/bench/thresholds.yaml", "what is promised")
	set.StringVar(&f.only, "only", "", "scenarios to run, with commas between them; all but scale when empty, peer only with --peer-command and kfdef111 with --manifests")
	set.BoolVar(&f.Quick, "quick", false, "small sizes, which show that the bench works and are no result")
	set.IntVar(&f.Services, "services", 1000, "custom resources that converge")
	set.IntVar(&f.Pairs, "pairs", 5, "pairs of baseline and operator")
	set.IntVar(&f.Concurrency, "concurrency", 16, "writers of the baseline; the manager's default")
	set.IntVar(&f.Objects, "objects", 10000, "managed objects of the large cluster")
	set.IntVar(&f.Foreign, "foreign", 20000, "Secrets and ConfigMaps of others")
	set.DurationVar(&f.Idle, "idle", 15*time.Minute, "how long the idle operator is looked at")
	set.DurationVar(&f.MemoryWait, "memory-wait", 5*time.Minute, "how long after convergence memory is read")
	set.IntVar(&f.Drifts, "drifts", 600, "objects that are changed by hand")
	set.IntVar(&f.Edits, "edits", 200, "specs that are edited under load")
	set.IntVar(&f.Tenant, "tenant", 700, "custom resources of a tenant that changes them all the time; each takes two of the 2,768 node ports")
	set.IntVar(&f.Neighbours, "neighbours", 200, "custom resources of the tenant that is measured beside it")
	set.IntVar(&f.Failovers, "failovers", 5, "fail-overs of each sort")
	f.Lease = world.DefaultLease
	f.bindPeer(set)
}

func (f *flags) bindPeer(set *flag.FlagSet) {
	p := &f.Peer
	set.StringVar(&p.Command, "peer-command", "", "command line of a peer; it finds the cluster by KUBECONFIG")
	set.StringVar(&p.Name, "peer-name", "peer", "what the report calls the peer")
	set.StringVar(&p.CRDs, "peer-crds", "", "folder of the peer's definitions")
	set.StringVar(&p.Setup, "peer-setup", "", "file of manifests to apply before the peer starts")
	set.StringVar(&p.CR, "peer-cr", "", "file of the custom resource for both, with NAMESPACE, NAME and VOLUME in it; upstream's shape when empty")
	set.StringVar(&p.Claim, "peer-claim", "NAME-pvc", "name of the claim that the volume of each is reserved for")
	set.StringVar(&p.Ready, "peer-ready", "condition:Ready", "when the peer calls one ready: condition:TYPE, phase:VALUE, or deployment")
	set.IntVar(&p.Services, "peer-services", 50, "custom resources of the comparison")
	set.DurationVar(&p.Idle, "peer-idle", 5*time.Minute, "how long both are looked at when all are ready")
	set.DurationVar(&p.Timeout, "peer-timeout", 10*time.Minute, "how long each may take until all are ready")
}

// config returns the settings, those of a quick run where the flag asks for one.
func (f *flags) config() scenario.Config {
	c := f.Config
	if c.Quick {
		c.Services, c.Pairs, c.Objects, c.Foreign = 30, 1, 120, 200
		c.Idle, c.MemoryWait = 10*time.Second, 2*time.Second
		c.Drifts, c.Edits, c.Failovers = 20, 10, 1
		c.Tenant, c.Neighbours = 40, 10
		c.Peer.Services, c.Peer.Idle = min(c.Peer.Services, 10), 10*time.Second
		c.Lease = world.Lease{Duration: 3 * time.Second, Renew: 2 * time.Second, Retry: 500 * time.Millisecond}
	}
	return c
}

func (f *flags) settings(c scenario.Config) map[string]string {
	return map[string]string{
		"custom resources that converge": fmt.Sprint(c.Services), "pairs": fmt.Sprint(c.Pairs),
		"concurrency": fmt.Sprint(c.Concurrency), "managed objects": fmt.Sprint(c.Objects), "foreign objects": fmt.Sprint(c.Foreign),
		"idle": c.Idle.String(), "wait before memory is read": c.MemoryWait.String(),
		"lease of the fail-over": fmt.Sprintf("duration %s, renewed within %s, retry period %s", c.Lease.Duration, c.Lease.Renew, c.Lease.Retry),
	}
}

// included says whether a scenario runs where none is named.
func (f *flags) included(name string) bool {
	switch name {
	case "peer":
		return f.Peer.Command != ""
	case "kfdef111":
		return f.Manifests != ""
	}
	return name != "scale"
}

func (f *flags) scenarios() ([]scenario.Scenario, error) {
	var names []string
	for _, s := range scenario.All {
		names = append(names, s.Name)
	}
	var out []scenario.Scenario
	if f.only == "" {
		for _, s := range scenario.All {
			if f.included(s.Name) {
				out = append(out, s)
			}
		}
		return out, nil
	}
	for name := range strings.SplitSeq(f.only, ",") {
		i := slices.Index(names, strings.TrimSpace(name))
		if i < 0 {
			return nil, fmt.Errorf("there is no scenario %q; there are %s", name, strings.Join(names, ", "))
		}
		out = append(out, scenario.All[i])
	}
	return out, nil
}
