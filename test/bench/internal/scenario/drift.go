package scenario

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mlkeeper.dev/test/bench/internal/audit"
	"mlkeeper.dev/test/bench/internal/chart"
	"mlkeeper.dev/test/bench/internal/report"
	"mlkeeper.dev/test/bench/internal/stat"
	"mlkeeper.dev/test/bench/internal/world"
)

// driftPause keeps the changes apart, so that none waits for the repair of another.
const driftPause = 100 * time.Millisecond

// drift changes and deletes children by hand, each child once, and reads from the audit log how long each was wrong.
func (b *Bench) drift(ctx context.Context) error {
	l, err := b.big(ctx)
	if err != nil {
		return err
	}
	return b.driftOf(ctx, l, "drift.", "drift repair")
}

// driftOf measures the drift repair of a large cluster. prefix is that of the ids of the figures, and what names them.
func (b *Bench) driftOf(ctx context.Context, l *large, prefix, what string) error {
	targets, err := b.targets(l, b.Config.Drifts)
	if err != nil {
		return err
	}
	if err := l.c.Quiet(ctx, settled, readyTimeout); err != nil {
		return err
	}
	mark := l.c.Audit.Mark()
	b.say("changing and deleting %d children, one every %s", len(targets), driftPause)
	for i, c := range targets {
		if removes(i, c) {
			err = c.delete(ctx, l.c.Wire)
		} else {
			err = c.spoil(ctx, l.c.Wire)
		}
		if err != nil {
			return err
		}
		if err := world.Pause(ctx, driftPause); err != nil {
			return err
		}
	}
	if err := l.c.Quiet(ctx, settled, readyTimeout); err != nil {
		return err
	}
	entries, err := l.c.Audit.Entries(mark, "")
	if err != nil {
		return err
	}
	missed := b.missedRepairs(ctx, l, targets)
	b.reportDrift(prefix, what, repairs(entries, l.id.User, targets))
	b.count(prefix+"missed", "changes that were not repaired", len(missed), strings.Join(missed, ", "))
	return nil
}

// removes says which targets are deleted: every second one of those that may be.
func removes(i int, c child) bool { return i%2 == 1 && deletable[c.object.Resource] }

// targets picks children of all resources in turn that were not picked before: one of each service until all services
// had their turn.
func (b *Bench) targets(l *large, n int) ([]child, error) {
	var out []child
	skip := l.used
	l.used += n
	for round := 0; ; round++ {
		more := false
		for i, s := range l.services {
			children, err := b.stacks[s.Shape.Name].children(s)
			if err != nil {
				return nil, err
			}
			if round >= len(children) {
				continue
			}
			more = true
			if skip--; skip >= 0 {
				continue
			}
			// The offset makes neighbours have different resources; the rounds go once around.
			if out = append(out, children[(i/len(shapes)+round)%len(children)]); len(out) == n {
				return out, nil
			}
		}
		if !more {
			return nil, fmt.Errorf("%d children are to be changed, and there are no more than %d", n, len(out))
		}
	}
}

// missedRepairs names the children that are still wrong.
func (b *Bench) missedRepairs(ctx context.Context, l *large, targets []child) []string {
	var out []string
	for _, c := range targets {
		if wrong, err := c.spoiled(ctx, l.c.Wire); wrong || err != nil {
			out = append(out, c.object.String())
		}
	}
	return out
}

// repairs returns how long each child was wrong, in seconds and by what happened to it: from the acknowledgement of the
// change to that of the operator's last write of the child, since a repair may take more than one.
func repairs(entries []audit.Entry, user string, targets []child) map[string][]float64 {
	wanted := map[audit.Object]bool{}
	for _, c := range targets {
		wanted[c.object] = true
	}
	changed, how, repaired := map[audit.Object]time.Time{}, map[audit.Object]string{}, map[audit.Object]time.Time{}
	for _, e := range entries {
		o := e.Object()
		if e.Class() != audit.Write || !e.OK() || e.Subresource != "" || !wanted[o] {
			continue
		}
		switch {
		case e.User == user:
			if e.Done.After(repaired[o]) {
				repaired[o] = e.Done
			}
		case strings.Contains(e.URI, "fieldManager=somebody"):
			changed[o], how[o] = e.Done, "changed"
		case e.Verb == "delete":
			changed[o], how[o] = e.Done, "deleted"
		}
	}
	out := map[string][]float64{}
	for o, at := range changed {
		// The log has the lines in the order of their end, but two that end at once may be swapped.
		if end, ok := repaired[o]; ok {
			out[o.Resource+" "+how[o]] = append(out[o.Resource+" "+how[o]], max(0, end.Sub(at).Seconds()))
		}
	}
	return out
}

func (b *Bench) reportDrift(prefix, what string, took map[string][]float64) {
	var all []float64
	var detail []string
	c := chart.Chart{Title: what, Kind: chart.Line, XLabel: "ms from the acknowledged change to the acknowledged repair", YLabel: "percent"}
	by := map[string][]float64{}
	for _, kind := range slices.Sorted(maps.Keys(took)) {
		s := stat.Summarize(took[kind])
		detail = append(detail, fmt.Sprintf("%s: %d, median %s, max %s", kind, s.N, report.Number(s.P50, "s"), report.Number(s.Max, "s")))
		all = append(all, took[kind]...)
		_, how, _ := strings.Cut(kind, " ")
		for _, v := range took[kind] {
			by[how] = append(by[how], 1000*v)
		}
	}
	for _, how := range slices.Sorted(maps.Keys(by)) {
		c.Series = append(c.Series, chart.CDF(how, by[how]))
	}
	b.Result.Charts = append(b.Result.Charts, c)
	s := stat.Summarize(all)
	b.Result.Add(report.Measure{
		ID: prefix + "p99", What: what, Value: s.P99, Unit: "s", Samples: all, Statistic: fmt.Sprintf("p99 of %d samples", s.N),
		Detail: strings.Join(detail, "; "),
	})
	b.Result.Add(report.Measure{ID: prefix + "median", What: what + ", median", Value: s.P50, Unit: "s"})
}
