package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mlkeeper.dev/test/bench/internal/audit"
	"mlkeeper.dev/test/bench/internal/chart"
	"mlkeeper.dev/test/bench/internal/report"
	"mlkeeper.dev/test/bench/internal/stat"
	"mlkeeper.dev/test/bench/internal/world"
	"mlkeeper.dev/test/cluster"
)

// Peer is another operator for the same kind, compared side by side.
type Peer struct {
	// Name is what the report calls it, Command its command line with spaces between the arguments. It is told where the
	// cluster is by KUBECONFIG.
	Name, Command string
	// CRDs is a folder of definitions to apply in place of ours, Setup a file of manifests to apply before it starts.
	CRDs, Setup string
	// CR is a file with the custom resource to apply; ours when empty. NAMESPACE, NAME and VOLUME stand for those of one.
	CR string
	// Claim is the name of the claim that the volume is reserved for.
	Claim string
	// Ready is its criterion: condition:TYPE, phase:VALUE, or deployment for an Available Deployment.
	Ready string
	// Services are how many custom resources there are, Idle how long both are looked at when all are ready.
	Services int
	Idle     time.Duration
	// Timeout is how long it may take until all are ready.
	Timeout time.Duration
}

// shape is the custom resource that both sides get.
func (p Peer) shape() (world.Shape, error) {
	shape := world.Upstream
	if p.Claim != "" {
		shape.Claim = p.Claim
	}
	if p.CR == "" {
		return shape, nil
	}
	data, err := os.ReadFile(p.CR)
	shape.Template = string(data)
	return shape, err
}

// readyBy returns what to follow and when it is ready.
func readyBy(criterion, resource string) (string, func(world.Followed) bool, error) {
	kind, value, _ := strings.Cut(criterion, ":")
	switch {
	case kind == "condition" && value != "":
		return resource, func(f world.Followed) bool { return f.True(value) }, nil
	case kind == "phase" && value != "":
		return resource, func(f world.Followed) bool { return f.Status.Phase == value }, nil
	case kind == "deployment":
		return deploymentResource, func(f world.Followed) bool { return f.True("Available") }, nil
	}
	return "", nil, fmt.Errorf("the criterion %q is none of condition:TYPE, phase:VALUE and deployment", criterion)
}

// contender is one side of the comparison.
type contender struct {
	name     string
	criteria string
	// install prepares a cluster and start starts the operator there.
	install func(context.Context, *world.Cluster) (*world.Identity, error)
	start   func(context.Context, *world.Cluster, *world.Identity) (*world.Process, error)
}

// peer runs MLKeeper and the peer over the same custom resources, each on a cluster of its own, and counts alike.
func (b *Bench) peer(ctx context.Context) error {
	p := b.Config.Peer
	sides := []contender{{
		name: "mlkeeper", criteria: "condition:Ready",
		install: func(ctx context.Context, c *world.Cluster) (*world.Identity, error) {
			return c.Install(ctx, b.Config.Manifest)
		},
		start: func(ctx context.Context, c *world.Cluster, id *world.Identity) (*world.Process, error) {
			op, err := c.Run(ctx, b.Config.Operator, "mlkeeper", id.Kubeconfig, world.DefaultLease)
			if err != nil {
				return nil, err
			}
			return op.Process, nil
		},
	}}
	if p.Command != "" {
		sides = append(sides, contender{name: p.Name, criteria: p.Ready, install: p.install, start: p.start})
	} else {
		b.Result.Note("No peer was given (--peer-command), so the comparison has one side.")
	}
	times := chart.Chart{Title: "Time to ready, side by side", Kind: chart.Line, XLabel: "seconds since the custom resource was made", YLabel: "percent"}
	memory := chart.Chart{Title: "Memory, side by side", Kind: chart.Line, XLabel: "seconds since the start of the operator", YLabel: "RssAnon, MiB"}
	tallies := map[string]audit.Tally{}
	for _, who := range sides {
		b.say("%s over %d custom resources", who.name, p.Services)
		side, err := b.contend(ctx, who)
		if err != nil {
			return fmt.Errorf("%s: %w", who.name, err)
		}
		b.Result.Sides = append(b.Result.Sides, side.Side)
		times.Series = append(times.Series, chart.CDF(who.name, side.times))
		memory.Series = append(memory.Series, chart.Series{Name: who.name, X: side.sampler.x, Y: side.sampler.y})
		tallies[who.name] = side.tally
		b.say("%s: %d of %d ready, median %s, %s", who.name, side.Ready, side.Services, report.Number(side.Seconds["p50"], "s"), side.tally)
	}
	b.Result.Charts = append(b.Result.Charts, times, requestChart("Requests per custom resource, side by side", float64(p.Services), tallies), memory)
	return nil
}

// install applies the definitions and the manifests of the peer. It gets every right, since its roles are not known.
func (p Peer) install(ctx context.Context, c *world.Cluster) (*world.Identity, error) {
	files, err := filepath.Glob(filepath.Join(p.CRDs, "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("--peer-crds %q has no definitions: %w", p.CRDs, errors.Join(err, os.ErrNotExist))
	}
	slices.Sort(files)
	if p.Setup != "" {
		files = append(files, p.Setup)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		objects, err := cluster.Parse(string(data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if err := c.Apply(ctx, objects); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return c.Administrator(ctx, "bench-peer", "peer")
}

func (p Peer) start(_ context.Context, c *world.Cluster, id *world.Identity) (*world.Process, error) {
	return world.Start("peer", filepath.Join(c.Dir, "peer.log"), []string{"KUBECONFIG=" + id.Kubeconfig}, strings.Fields(p.Command)...)
}

// contended is what one side did.
type contended struct {
	report.Side
	times   []float64
	tally   audit.Tally
	sampler *sampler
}

func (b *Bench) contend(ctx context.Context, who contender) (*contended, error) {
	p := b.Config.Peer
	shape, err := p.shape()
	if err != nil {
		return nil, err
	}
	services := world.Services(shape, "peer", 0, p.Services)
	c, err := world.Boot(ctx, b.Config.Devcluster)
	if err != nil {
		return nil, err
	}
	defer c.Stop()
	id, err := who.install(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := c.Prepare(ctx, services); err != nil {
		return nil, err
	}
	if err := c.Quiet(ctx, settled, readyTimeout); err != nil {
		return nil, err
	}
	process, err := who.start(ctx, c, id)
	if err != nil {
		return nil, err
	}
	defer process.Stop(30 * time.Second)
	out := &contended{sampler: sample(process)}
	defer out.sampler.stop()
	if err := b.watching(ctx, c, id, process); err != nil {
		return nil, err
	}
	return out, b.follow(ctx, c, id, process, who, services, out)
}

// watching waits until an operator watches the custom resources, and a little longer for the rest of its start.
func (b *Bench) watching(ctx context.Context, c *world.Cluster, id *world.Identity, process *world.Process) error {
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		entries, err := c.Audit.Entries(0, id.User)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(entries, func(e audit.Entry) bool {
			return e.Class() == audit.Watch && e.Resource == "trustyaiservices" && e.OK()
		}) {
			return world.Pause(ctx, settled)
		}
		if err := errors.Join(process.Running(), world.Pause(ctx, 200*time.Millisecond)); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s does not watch TrustyAIServices after two minutes:\n%s", process.Name, process.Tail())
}

// follow creates the custom resources, waits for them, and looks at the operator while it should be idle. One that does
// not bring up all is measured all the same: that some are not ready is a result.
func (b *Bench) follow(
	ctx context.Context, c *world.Cluster, id *world.Identity, process *world.Process, who contender, services []world.Service, out *contended,
) error {
	p := b.Config.Peer
	first, err := services[0].Object()
	if err != nil {
		return err
	}
	resource, ready, err := readyBy(who.criteria, "/apis/"+first.GetAPIVersion()+"/"+services[0].Shape.Plural())
	if err != nil {
		return err
	}
	follower, err := c.Follow(ctx, resource, ready, nil)
	if err != nil {
		return err
	}
	defer follower.Stop()
	mark := c.Audit.Mark()
	created, err := b.create(ctx, c, services, nil)
	if err != nil {
		return err
	}
	if err := follower.Await(ctx, len(services), p.Timeout, process.Running); err != nil {
		b.say("%s: %v", who.name, err)
	}
	seen := follower.Ready()
	// An operator that never rests would keep the cluster from ever being quiet.
	_ = c.Quiet(ctx, settled, 30*time.Second)
	entries, err := c.Audit.Entries(mark, id.User)
	if err != nil {
		return err
	}
	out.times, out.tally = secondsToReady(services, created, seen), audit.Count(entries)
	s := stat.Summarize(out.times)
	out.Side = report.Side{
		Name: who.name, Services: len(services), Ready: s.N, Kinds: out.tally.Kind, IdleFor: p.Idle.String(),
		Seconds: map[string]float64{"p50": s.P50, "p90": s.P90, "p99": s.P99}, All: s.Max, PerCR: map[string]float64{}, Idle: map[string]int{},
	}
	for class, n := range out.tally.Class {
		out.PerCR[string(class)] = float64(n) / float64(len(services))
	}
	b.say("looking at %s idle for %s", who.name, p.Idle)
	mark = c.Audit.Mark()
	if err := world.Pause(ctx, p.Idle); err != nil {
		return err
	}
	if entries, err = c.Audit.Entries(mark, id.User); err != nil {
		return err
	}
	for class, n := range audit.Count(entries).Class {
		out.Idle[string(class)] = n
	}
	out.RssAnon, err = process.RssAnon()
	return errors.Join(err, process.Running())
}
