// Package scenario holds what the bench measures, one file for each subject. A scenario measures and records; the
// judgement is in the thresholds.
package scenario

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/test/bench/internal/report"
	"mlkeeper.dev/test/bench/internal/world"
)

// controllerLabel is on every child.
const controllerLabel = keeper.ControllerLabel

// Config is what a run is told.
type Config struct {
	Operator, Devcluster, Manifest, Out string
	// Kustomize is the tool, and Kubeflow the folder with the KfDef and the archive of Kubeflow 1.2.
	Kustomize, Kubeflow string
	// Manifests is a checkout of Kubeflow 1.11's manifests; empty for none. ManifestsMap is where what these refer to by address comes from.
	Manifests    string
	ManifestsMap []string
	// Helm is the tool, and Charts the folder with the charts that both install.
	Helm, Charts string

	Services, Pairs, Concurrency int
	// Objects are the managed objects of the large cluster, Foreign the Secrets and ConfigMaps of others.
	Objects, Foreign int
	Idle, MemoryWait time.Duration
	Drifts, Edits    int
	// Tenant are the custom resources of the busy tenant, Neighbours those of the one beside it.
	Tenant, Neighbours int
	Failovers          int
	Lease              world.Lease
	Quick              bool
	Peer               Peer
}

// Bench is one run.
type Bench struct {
	Config Config
	Result *report.Result
	Out    io.Writer

	stacks map[string]Stack
	large  *large
	start  time.Time
}

// New returns a run that writes its progress to out.
func New(config Config, result *report.Result, out io.Writer) *Bench {
	return &Bench{Config: config, Result: result, Out: out, start: time.Now()}
}

// Scenario is one subject.
type Scenario struct {
	Name string
	// Takes says about how long it takes in full, so that nobody wonders whether it hangs.
	Takes string
	run   func(*Bench, context.Context) error
}

// All are the scenarios in their order: those that share the large cluster leave it as they found it.
var All = []Scenario{
	{"converge", "32 min", (*Bench).converge},
	{"tfserv", "26 min", (*Bench).tfserv},
	{"edit", "4 min", (*Bench).edit},
	{"fairness", "15 min", (*Bench).fairness},
	{"bombs", "15 min", (*Bench).bombs},
	{"memory", "24 min", (*Bench).memory},
	{"idle", "16 min", (*Bench).idle},
	{"drift", "2 min", (*Bench).drift},
	{"restart", "1 min", (*Bench).restart},
	{"failover", "5 min", (*Bench).failover},
	{"scale", "75 min at 100,000 objects", (*Bench).scale},
	{"kfdef", "11 min", (*Bench).kfdef},
	{"kfdef111", "20 min", (*Bench).kfdef111},
	{"seldon", "17 min", (*Bench).seldon},
	{"acm", "27 min", (*Bench).acm},
	{"peer", "10 min", (*Bench).peer},
}

// Run runs the scenarios that are selected, and goes on after one that fails: its measures are missing in the report,
// and the failure is in it.
func (b *Bench) Run(ctx context.Context, selected []Scenario) error {
	var failed error
	defer b.endLarge()
	for _, s := range selected {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if slices.Contains([]string{"kfdef", "kfdef111", "seldon", "acm", "peer"}, s.Name) {
			// Nothing else runs beside a comparison.
			b.endLarge()
		}
		b.say("%s (about %s in full)", s.Name, s.Takes)
		b.Result.Load = append(b.Result.Load, report.LoadNow(s.Name))
		began := time.Now()
		if err := s.run(b, ctx); err != nil {
			b.say("%s FAILED: %v", s.Name, err)
			b.Result.Failures = append(b.Result.Failures, fmt.Sprintf("%s: %v", s.Name, err))
			failed = fmt.Errorf("%s: %w", s.Name, err)
		}
		b.say("%s took %s", s.Name, time.Since(began).Round(time.Second))
	}
	b.Result.Load = append(b.Result.Load, report.LoadNow("end"))
	return failed
}

// endLarge ends the large cluster if there is one.
func (b *Bench) endLarge() {
	if b.large != nil {
		b.large.stop()
		b.large = nil
	}
}

// say prints progress with the time since the start.
func (b *Bench) say(format string, args ...any) {
	_, _ = fmt.Fprintf(b.Out, "%6s  %s\n", time.Since(b.start).Round(time.Second), fmt.Sprintf(format, args...))
}

// file is a file of the results.
func (b *Bench) file(name string) string { return filepath.Join(b.Config.Out, name) }

// boot boots a cluster with the definitions and the roles of the operator.
func (b *Bench) boot(ctx context.Context, flags ...string) (*world.Cluster, *world.Identity, error) {
	c, err := world.Boot(ctx, b.Config.Devcluster, flags...)
	if err != nil {
		return nil, nil, err
	}
	id, err := c.Install(ctx, b.Config.Manifest)
	if err != nil {
		c.Stop()
		return nil, nil, err
	}
	return c, id, nil
}

// captured are the shapes that are measured.
var captured = []world.Shape{world.ADR, world.Upstream, world.Tutorial}

// captured returns what the operator writes for a service of every shape; it is recorded once in a run.
func (b *Bench) captured(ctx context.Context) (map[string]Stack, error) {
	if b.stacks == nil {
		b.say("capturing what the operator writes")
		stacks, err := b.capture(ctx, captured...)
		if err != nil {
			return nil, fmt.Errorf("capture: %w", err)
		}
		b.stacks = stacks
		for _, shape := range captured {
			stack := stacks[shape.Name]
			b.say("shape %s: %d children, at least %d writes: %v", shape.Name, len(stack.Resources()), stack.Minimum(), stack.Resources())
			b.Result.Mix[shape.Name] = stack.Resources()
		}
	}
	return b.stacks, nil
}
