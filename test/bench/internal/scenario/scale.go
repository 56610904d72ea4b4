package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mlkeeper.dev/test/bench/internal/audit"
	"mlkeeper.dev/test/bench/internal/report"
	"mlkeeper.dev/test/bench/internal/stat"
	"mlkeeper.dev/test/bench/internal/world"
)

const (
	// scaleSteps is in how many steps the cluster grows, each with its own time to become Ready.
	scaleSteps = 10
	// scaleShards is the number of shards, and of managers that share them.
	scaleShards = 2
)

// scale measures memory, drift repair and restarts with many managed objects: with one manager, and with two that share the namespaces.
func (b *Bench) scale(ctx context.Context) error {
	l, err := b.bigEmpty(ctx)
	if err != nil {
		return err
	}
	for step := range scaleSteps {
		if err := b.grow(ctx, l, b.Config.Objects*(step+1)/scaleSteps); err != nil {
			return err
		}
	}
	if err := b.memoryPerObject(ctx, l, "scale.memory", l.op); err != nil {
		return err
	}
	if err := b.driftOf(ctx, l, "scale.drift.", "drift repair at scale"); err != nil {
		return err
	}
	if err := b.restartOf(ctx, l, "scale.restart."); err != nil {
		return err
	}
	return b.scaleShared(ctx, l)
}

// memoryPerObject reads the memory of the managers of a large cluster, and records the most that one has per managed object of all.
func (b *Bench) memoryPerObject(ctx context.Context, l *large, id string, managers ...*world.Operator) error {
	n, err := b.managed(ctx, l)
	if err != nil {
		return err
	}
	most, wait := []float64{0}, b.Config.MemoryWait
	for _, m := range managers {
		rss, _, err := b.readMemory(ctx, m, wait)
		if err != nil {
			return err
		}
		if stat.Median(rss) > stat.Median(most) {
			most = rss
		}
		// All of them have rested while the first one was waited for.
		wait = 0
	}
	b.Result.Add(report.Measure{
		ID: id, What: fmt.Sprintf("memory (RssAnon) per managed object, managers: %d, the most of one", len(managers)), Unit: "B",
		Value: stat.Median(most) / float64(n), Statistic: fmt.Sprintf("median of %d readings", len(most)),
		Detail: fmt.Sprintf("%s over %d managed objects", report.Number(stat.Median(most), "B"), n),
	})
	return nil
}

// scaleShared replaces the manager of a large cluster by two that share the namespaces. The second one comes later, and goes at the end.
func (b *Bench) scaleShared(ctx context.Context, l *large) error {
	l.op.Stop(time.Minute)
	first, err := b.sharing(ctx, l, "shared-0", nil)
	if err != nil {
		return err
	}
	l.op = first
	mark := l.c.Audit.Mark()
	second, err := b.sharing(ctx, l, "shared-1", first)
	if err != nil {
		return err
	}
	defer func() { second.Stop(time.Minute) }()
	if err := b.countHandover(ctx, l, mark, "scale.join.writes", "writes while a second manager takes its shards"); err != nil {
		return err
	}
	if err := b.memoryPerObject(ctx, l, "scale.shared.memory", first, second); err != nil {
		return err
	}
	if err := b.driftOf(ctx, l, "scale.shared.drift.", "drift repair at scale, two managers"); err != nil {
		return err
	}
	bare, objects, err := b.bareLists(ctx, l)
	if err != nil {
		return err
	}
	mark = l.c.Audit.Mark()
	second.Stop(time.Minute)
	took, err := b.holding(ctx, scaleShards, first)
	if err != nil {
		return err
	}
	b.Result.Add(report.Measure{
		ID:    "scale.shared.takeover",
		What:  fmt.Sprintf("from the shards of a manager that ended, taken, to the last custom resource in them reconciled, over a bare LIST of %d objects", objects),
		Value: took.Seconds() / stat.Median(bare), Statistic: "one takeover",
		Detail: fmt.Sprintf("%s over %s", report.Number(took.Seconds(), "s"), report.Number(stat.Median(bare), "s")),
	})
	return b.countHandover(ctx, l, mark, "scale.leave.writes", "writes while a manager ends and the other takes its shards")
}

// sharing starts a manager and waits until it has its part of the shards: all of them, or half beside another one.
func (b *Bench) sharing(ctx context.Context, l *large, name string, other *world.Operator) (*world.Operator, error) {
	op, err := l.c.Run(ctx, b.Config.Operator, name, l.id.Kubeconfig, world.DefaultLease, oneController, fmt.Sprintf("--shards=%d", scaleShards))
	if err != nil {
		return nil, err
	}
	err = op.AwaitReady(ctx, 2*time.Minute)
	switch {
	case err != nil:
	case other == nil:
		_, err = b.holding(ctx, scaleShards, op)
	default:
		_, err = b.holding(ctx, scaleShards/2, op, other)
	}
	if err != nil {
		op.Stop(time.Minute)
		return nil, err
	}
	return op, nil
}

// holding waits until each of the managers holds so many shards and has reconciled what is in them. It returns how long that took after the
// shards were held.
func (b *Bench) holding(ctx context.Context, shards int, managers ...*world.Operator) (time.Duration, error) {
	var held, rested time.Time
	err := until(ctx, func() error {
		now := time.Now()
		holds, rests := true, true
		for _, op := range managers {
			m, err := op.Metrics(ctx)
			if err != nil {
				return err
			}
			holds = holds && int(m.Sum("mlkeeper_shard_held")) == shards
			rests = rests && m.Sum("workqueue_depth")+m.Sum("controller_runtime_active_workers") == 0
		}
		if holds && held.IsZero() {
			held = now
		}
		if !holds || !rests {
			rested = time.Time{}
			return errors.New("the managers do not hold their shards, or reconcile")
		}
		if rested.IsZero() {
			rested = now
		}
		// A shard is held a moment before its custom resources are queued.
		if now.Sub(rested) < settled {
			return errors.New("the managers may have more to reconcile")
		}
		return nil
	}, managers...)
	return rested.Sub(held), err
}

// countHandover counts the writes of the managers after a mark, once nobody writes any more.
func (b *Bench) countHandover(ctx context.Context, l *large, mark audit.Mark, id, what string) error {
	if err := l.c.Quiet(ctx, settled, readyTimeout); err != nil {
		return err
	}
	entries, err := l.c.Audit.Entries(mark, l.id.User)
	if err != nil {
		return err
	}
	written := audit.Writes(entries)
	b.count(id, what, len(written), audit.Count(written).String())
	return nil
}
