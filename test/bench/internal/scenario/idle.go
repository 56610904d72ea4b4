package scenario

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mlkeeper.dev/test/bench/internal/audit"
	"mlkeeper.dev/test/bench/internal/world"
)

const (
	reconcilesMetric = "mlkeeper_reconciles_total"
	// controllerMetric counts the wires and the Inventories, too.
	controllerMetric = "controller_runtime_reconcile_total"
	requestsMetric   = "mlkeeper_api_requests_total"
)

// idle looks at an operator whose services are all Ready and untouched, with a restart of the API server in the middle.
// What counts are the requests of its user in the audit log, and its own counter where it has one.
func (b *Bench) idle(ctx context.Context) error {
	l, err := b.big(ctx)
	if err != nil {
		return err
	}
	if err := l.c.Quiet(ctx, 5*time.Second, readyTimeout); err != nil {
		return err
	}
	before, err := l.op.Metrics(ctx)
	if err != nil {
		return err
	}
	mark := l.c.Audit.Mark()
	b.say("looking at the idle operator for %s", b.Config.Idle)
	if err := b.look(ctx, l, b.Config.Idle/2); err != nil {
		return err
	}
	broke := time.Now()
	if err := l.c.Restart(ctx, "kube-apiserver"); err != nil {
		return err
	}
	if err := b.reconnected(ctx, l, mark, broke); err != nil {
		return err
	}
	back := time.Now()
	b.say("the API server was restarted, and all watches were open again after %s", back.Sub(broke).Round(100*time.Millisecond))
	if err := b.look(ctx, l, b.Config.Idle/2); err != nil {
		return err
	}
	after, err := l.op.Metrics(ctx)
	if err != nil {
		return err
	}
	entries, err := l.c.Audit.Entries(mark, l.id.User)
	if err != nil {
		return err
	}
	b.reportIdle(entries, before, after, broke, back.Add(settled))
	return b.reportOthers(l, mark)
}

// look waits while the operator runs.
func (b *Bench) look(ctx context.Context, l *large, d time.Duration) error {
	for end := time.Now().Add(d); time.Now().Before(end); {
		if err := world.Pause(ctx, min(time.Second, time.Until(end)+time.Millisecond)); err != nil {
			return err
		}
		if err := l.op.Running(); err != nil {
			return err
		}
	}
	return nil
}

// reconnected waits until the operator has opened as many watches again as it had.
func (b *Bench) reconnected(ctx context.Context, l *large, mark audit.Mark, broke time.Time) error {
	open := map[string]bool{}
	all, err := l.c.Audit.Watching(l.id.User, broke)
	if err != nil {
		return err
	}
	for _, e := range all {
		open[watched(e)] = true
	}
	again := map[string]bool{}
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); {
		if mark, err = l.c.Audit.Since(mark, l.id.User, func(e audit.Entry) {
			if e.Class() == audit.Watch && e.OK() && e.Received.After(broke) && open[watched(e)] {
				again[watched(e)] = true
			}
		}); err != nil {
			return err
		}
		if len(again) >= len(open) {
			return nil
		}
		if err := world.Pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("%d of %d watches were opened again within 5 minutes", len(again), len(open))
}

// watched names what a watch is on.
func watched(e audit.Entry) string { return e.Kind() + " " + e.NS }

func (b *Bench) reportIdle(entries []audit.Entry, before, after world.Metrics, broke, back time.Time) {
	var writes, reads, reconnect []audit.Entry
	for _, e := range entries {
		during := e.Received.After(broke) && e.Received.Before(back)
		switch class := e.Class(); {
		case class == audit.Write || class == audit.Event:
			writes = append(writes, e)
		case class == audit.Get, class == audit.List && !during:
			reads = append(reads, e)
		}
		if during {
			reconnect = append(reconnect, e)
		}
	}
	span := fmt.Sprintf("in %s of idling with a reconnect", b.Config.Idle)
	b.count("idle.writes", "writes "+span, len(writes), audit.Count(writes).String())
	b.count("idle.reads", "live reads "+span, len(reads), audit.Count(reads).String())
	reconciles := after.Since(before, reconcilesMetric)
	if !after.Has(reconcilesMetric) {
		b.missing(reconcilesMetric)
	}
	b.count("idle.reconciles", "reconciles "+span, int(sum(reconciles)), describeCounts(reconciles))
	others := after.Since(before, controllerMetric)
	b.count("idle.passes", "passes of any controller of the manager "+span, int(sum(others)), describeCounts(others))
	tally := audit.Count(reconnect)
	b.count("idle.reconnect", "requests of the reconnect, watches included", len(reconnect)-tally.Class[audit.Lease], tally.String())
	if !after.Has(requestsMetric) {
		b.missing(requestsMetric)
		return
	}
	own := after.Since(before, requestsMetric)
	counted := 0.0
	for key, n := range own {
		if !strings.Contains(key, `verb="WATCH"`) && !strings.Contains(key, `resource="leases"`) {
			counted += n
		}
	}
	b.count("idle.own", "writes and reads by the manager's own counter, watches and leases left out", int(counted), describeCounts(own))
}

// reportOthers counts what the controllers of Kubernetes wrote meanwhile: an operator must act on a Deployment that is no
// longer Available, and then the window was not idle.
func (b *Bench) reportOthers(l *large, mark audit.Mark) error {
	var others []audit.Entry
	_, err := l.c.Audit.Since(mark, "", func(e audit.Entry) {
		if e.User != l.id.User && e.Class() == audit.Write && e.Resource != "nodes" && e.Subresource != "token" {
			others = append(others, e)
		}
	})
	b.count("idle.others", "writes of the controllers of Kubernetes meanwhile, for comparison", len(others), audit.Count(others).String())
	return err
}

func sum(counts map[string]float64) float64 {
	total := 0.0
	for _, n := range counts {
		total += n
	}
	return total
}

// describeCounts prints counters; nothing where none grew.
func describeCounts(counts map[string]float64) string {
	if len(counts) == 0 {
		return ""
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		_, labels, _ := strings.Cut(key, "{")
		out = append(out, fmt.Sprintf("%g {%s", counts[key], labels))
	}
	return strings.Join(out, ", ")
}
