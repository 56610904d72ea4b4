package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mlkeeper.dev/test/bench/internal/audit"
	"mlkeeper.dev/test/bench/internal/chart"
	"mlkeeper.dev/test/bench/internal/report"
	"mlkeeper.dev/test/bench/internal/stat"
	"mlkeeper.dev/test/bench/internal/world"
)

// half is one half of a pair: the baseline or the operator.
type half struct {
	times
	// toReady is how long each custom resource took, allReady how long all.
	toReady  []float64
	allReady float64
	tally    audit.Tally
}

// times are read from the audit log, so that they are the API server's own and alike for both halves.
type times struct {
	// writes is until the last child and the last accepted status were acknowledged, last until the very last write was,
	// the status that says Ready; both in seconds from the first request that made a custom resource.
	writes, last float64
	// accepted and total count the writes up to the one and the other.
	accepted, total int
	events          int
}

// converge brings up TrustyAIServices of the ADR, tfserv the Tfserv of the tutorial.
func (b *Bench) converge(ctx context.Context) error { return b.pairs(ctx, "converge", world.ADR) }

func (b *Bench) tfserv(ctx context.Context) error { return b.pairs(ctx, "tfserv", world.Tutorial) }

// pairs brings up services of a shape in pairs of baseline and operator.
func (b *Bench) pairs(ctx context.Context, scenario string, shape world.Shape) error {
	stacks, err := b.captured(ctx)
	if err != nil {
		return err
	}
	stack := stacks[shape.Name]
	var baselines, operators []half
	for i := range b.Config.Pairs {
		// The order alternates, so that a machine that becomes faster or slower favours none.
		order := []bool{true, false}
		if i%2 == 1 {
			order = []bool{false, true}
		}
		for _, bare := range order {
			if bare {
				h, err := b.baselineHalf(ctx, stack)
				if err != nil {
					return fmt.Errorf("baseline of pair %d: %w", i+1, err)
				}
				baselines = append(baselines, h)
				continue
			}
			h, err := b.operatorHalf(ctx, scenario, stack, i == 0)
			if err != nil {
				return fmt.Errorf("operator of pair %d: %w", i+1, err)
			}
			operators = append(operators, h)
		}
		f, o := baselines[i], operators[i]
		b.say("pair %d of %d: writes %.2f s over %.2f s = %.3f, last write %.2f over %.2f = %.3f, all Ready %.2f over %.2f",
			i+1, b.Config.Pairs, o.writes, f.writes, o.writes/f.writes, o.last, f.last, o.last/f.last, o.allReady, f.allReady)
	}
	b.reportConverge(scenario, stack, baselines, operators)
	return nil
}

// half boots a cluster with what must be there before the services.
func (b *Bench) half(ctx context.Context, shape world.Shape) (*world.Cluster, *world.Identity, []world.Service, error) {
	c, id, err := b.boot(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	services := world.Services(shape, "bench", 0, b.Config.Services)
	if err := c.Prepare(ctx, services); err != nil {
		c.Stop()
		return nil, nil, nil, err
	}
	return c, id, services, nil
}

// settled is how long nobody may write before a measurement begins.
const settled = 3 * time.Second

func (b *Bench) baselineHalf(ctx context.Context, stack Stack) (half, error) {
	c, id, services, err := b.half(ctx, stack.source.Shape)
	if err != nil {
		return half{}, err
	}
	defer c.Stop()
	wire, err := world.NewWire(id.Config)
	if err != nil {
		return half{}, err
	}
	f := newBaseline(wire, stack, services)
	follower, err := c.Follow(ctx, deploymentResource, func(d world.Followed) bool { return d.True("Available") }, f.available)
	if err != nil {
		return half{}, err
	}
	defer follower.Stop()
	if err := c.Quiet(ctx, settled, readyTimeout); err != nil {
		return half{}, err
	}
	mark := c.Audit.Mark()
	failed := make(chan error, 1)
	go func() { failed <- f.run(ctx, b.Config.Concurrency) }()
	created, err := b.create(ctx, c, services, f.made)
	if err != nil {
		return half{}, errors.Join(err, <-failed)
	}
	if err := <-failed; err != nil {
		return half{}, err
	}
	return b.measureHalf(ctx, c, stack, id.User, mark, services, created, follower.Ready())
}

func (b *Bench) operatorHalf(ctx context.Context, scenario string, stack Stack, profile bool) (half, error) {
	c, id, services, err := b.half(ctx, stack.source.Shape)
	if err != nil {
		return half{}, err
	}
	defer c.Stop()
	op, err := c.Run(ctx, b.Config.Operator, "mlkeeper", id.Kubeconfig, world.DefaultLease)
	if err != nil {
		return half{}, err
	}
	defer op.Stop(30 * time.Second)
	if err := errors.Join(op.AwaitReady(ctx, time.Minute), op.AwaitLeading(ctx, time.Minute)); err != nil {
		return half{}, err
	}
	if err := c.Quiet(ctx, settled, readyTimeout); err != nil {
		return half{}, err
	}
	mark := c.Audit.Mark()
	profiled := make(chan error, 1)
	go func() {
		if profile {
			profiled <- b.profile(ctx, op, fmt.Sprintf("profile?seconds=%d", max(5, min(30, b.Config.Services/50))), scenario+"-cpu.pprof")
			return
		}
		profiled <- nil
	}()
	created, ready, err := b.bringUp(ctx, c, op.Process, services)
	if err != nil {
		return half{}, err
	}
	if err := <-profiled; err != nil {
		return half{}, err
	}
	if profile {
		if err := b.profile(ctx, op, "heap?gc=1", scenario+"-heap.pprof"); err != nil {
			return half{}, err
		}
	}
	h, err := b.measureHalf(ctx, c, stack, id.User, mark, services, created, ready)
	if err == nil && h.total > stack.Minimum()*len(services) {
		b.say("%d writes more than the minimum: %s", h.total-stack.Minimum()*len(services), h.tally)
	}
	return h, err
}

// profile takes a profile where the operator offers one.
func (b *Bench) profile(ctx context.Context, op *world.Operator, what, name string) error {
	taken, err := op.Profile(ctx, what, b.file(name))
	if taken && err == nil {
		b.Result.Profiles = append(b.Result.Profiles, name)
	}
	if !taken {
		b.Result.Note("No profiles were taken: the manager has no --pprof-bind-address.")
	}
	return err
}

// measureHalf waits for late writes, and reads the audit log.
func (b *Bench) measureHalf(
	ctx context.Context, c *world.Cluster, stack Stack, user string, mark audit.Mark, services []world.Service,
	created map[string]birth, ready map[string]time.Time,
) (half, error) {
	if err := c.Quiet(ctx, settled, readyTimeout); err != nil {
		return half{}, err
	}
	entries, err := c.Audit.Entries(mark, user)
	if err != nil {
		return half{}, err
	}
	var begin time.Time
	if _, err := c.Audit.Since(mark, "", func(e audit.Entry) {
		if e.Verb == "create" && e.Resource == stack.source.Shape.Plural() && (begin.IsZero() || e.Received.Before(begin)) {
			begin = e.Received
		}
	}); err != nil {
		return half{}, err
	}
	h := half{times: timesOf(entries, begin, stack.late), toReady: secondsToReady(services, created, ready), tally: audit.Count(entries)}
	if len(h.toReady) != len(services) {
		return h, fmt.Errorf("%d of %d services were seen ready", len(h.toReady), len(services))
	}
	for _, at := range ready {
		h.allReady = max(h.allReady, at.Sub(begin).Seconds())
	}
	return h, nil
}

// timesOf reads the times out of the requests of the baseline or the operator. The first status of a custom resource is the
// accepted one; those that follow, and what is late, wait for the controllers of Kubernetes, which is none of the
// operator's doing.
func timesOf(entries []audit.Entry, begin time.Time, late func(audit.Entry) bool) times {
	var t times
	first := map[audit.Object]time.Time{}
	for _, e := range entries {
		if o := e.Object(); e.Class() == audit.Write && e.OK() && e.Subresource == "status" {
			if at, seen := first[o]; !seen || e.Done.Before(at) {
				first[o] = e.Done
			}
		}
	}
	for _, e := range entries {
		if e.Class() == audit.Event {
			t.events++
		}
		if e.Class() != audit.Write {
			continue
		}
		t.total++
		if !e.OK() {
			continue
		}
		since := e.Done.Sub(begin).Seconds()
		t.last = max(t.last, since)
		if e.Subresource == "status" && first[e.Object()].Equal(e.Done) || e.Subresource != "status" && !late(e) {
			t.writes = max(t.writes, since)
			t.accepted++
		}
	}
	return t
}

func column(halves []half, of func(half) float64) []float64 {
	var out []float64
	for _, h := range halves {
		out = append(out, of(h))
	}
	return out
}

func ratios(over, under []float64) []float64 {
	var out []float64
	for i := range over {
		out = append(out, over[i]/under[i])
	}
	return out
}

func (b *Bench) reportConverge(scenario string, stack Stack, baselines, operators []half) {
	n, plural := float64(b.Config.Services), stack.source.Shape.Plural()
	pairs := fmt.Sprintf("median of %d interleaved pairs", len(baselines))
	ratio := func(id, what string, of func(half) float64) {
		over, under := column(operators, of), column(baselines, of)
		r := ratios(over, under)
		b.Result.Add(report.Measure{
			ID: scenario + "." + id, What: what, Value: stat.Median(r), Samples: r, Statistic: pairs,
			Detail: fmt.Sprintf("operator %s, baseline %s (medians)", report.Number(stat.Median(over), "s"), report.Number(stat.Median(under), "s")),
		})
	}
	ratio("writes", fmt.Sprintf("converge %d %s, children and accepted status, over the baseline", b.Config.Services, plural), func(h half) float64 { return h.writes })
	ratio("last", fmt.Sprintf("converge %d %s, very last write, over the baseline", b.Config.Services, plural), func(h half) float64 { return h.last })
	ratio("ready", "time until all "+plural+" are Ready, over bare writes followed to Available", func(h half) float64 { return h.allReady })
	ratio("readyMedian", "median time to Ready of "+plural+", over bare writes followed to Available", func(h half) float64 { return stat.Median(h.toReady) })
	rate := column(baselines, func(h half) float64 { return float64(h.accepted) / h.writes })
	b.Result.Add(report.Measure{ID: scenario + ".rate", What: "raw write rate of the baseline of " + plural + ", all controllers running", Value: stat.Median(rate), Unit: "/s", Samples: rate, Statistic: pairs})
	efficiency := column(operators, func(h half) float64 { return n * float64(stack.Minimum()) / float64(h.total) })
	b.Result.Add(report.Measure{
		ID: scenario + ".efficiency", What: "least number of writes over those sent, " + plural, Value: stat.Quantile(efficiency, 0), Samples: efficiency,
		Statistic: "worst run", Detail: fmt.Sprintf("least: %d per custom resource; sent in the last run: %s", stack.Minimum(), operators[len(operators)-1].tally),
	})
	events := column(operators, func(h half) float64 { return float64(h.events) / n })
	b.Result.Add(report.Measure{ID: scenario + ".events", What: "events per custom resource, " + plural, Value: stat.Quantile(events, 1), Samples: events, Statistic: "worst run"})
	f, o := baselines[len(baselines)-1], operators[len(operators)-1]
	b.Result.Charts = append(
		b.Result.Charts,
		chart.Chart{
			Title: "Time to Ready of " + plural + " (last pair)", Kind: chart.Line, XLabel: "seconds since the custom resource was made", YLabel: "percent",
			Series: []chart.Series{chart.CDF("baseline", f.toReady), chart.CDF("mlkeeper", o.toReady)},
		},
		chart.Chart{
			Title: "Until the last child and accepted status, " + plural, Kind: chart.Bar, XLabel: "pair", YLabel: "seconds", Categories: numbers(len(baselines)),
			Series: []chart.Series{
				{Name: "baseline", Y: column(baselines, func(h half) float64 { return h.writes })},
				{Name: "mlkeeper", Y: column(operators, func(h half) float64 { return h.writes })},
			},
		},
		requestChart(fmt.Sprintf("Requests per custom resource (%d %s converging)", b.Config.Services, plural), n, map[string]audit.Tally{"baseline": f.tally, "mlkeeper": o.tally}),
	)
}

func numbers(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprint(i+1))
	}
	return out
}
