package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"mlkeeper.dev/test/bench/internal/audit"
	"mlkeeper.dev/test/bench/internal/report"
	"mlkeeper.dev/test/bench/internal/stat"
	"mlkeeper.dev/test/bench/internal/world"
)

// tenantPause is between two changes of the tenant's custom resources.
const tenantPause = 10 * time.Millisecond

// neighbour are the times of the second tenant, in seconds: until its custom resources are Ready, and until its children are repaired.
type neighbour struct{ ready, repaired []float64 }

// fairness measures a tenant with few custom resources, alone and beside one with many that change all the time.
func (b *Bench) fairness(ctx context.Context) error {
	c, id, err := b.boot(ctx)
	if err != nil {
		return err
	}
	defer c.Stop()
	op, err := c.Run(ctx, b.Config.Operator, "mlkeeper", id.Kubeconfig, world.LongLease, "--controllers=tfserving")
	if err != nil {
		return err
	}
	defer op.Stop(30 * time.Second)
	if err := errors.Join(op.AwaitReady(ctx, time.Minute), op.AwaitLeading(ctx, time.Minute)); err != nil {
		return err
	}
	shape := world.Tutorial
	shape.Together = b.Config.Tenant
	tenant := world.Services(shape, "tenant", 0, b.Config.Tenant)
	if err := c.Prepare(ctx, tenant); err != nil {
		return err
	}
	b.say("making %d custom resources of one tenant", len(tenant))
	if _, _, err := b.bringUp(ctx, c, op.Process, tenant); err != nil {
		return err
	}
	if err := c.Quiet(ctx, settled, readyTimeout); err != nil {
		return err
	}
	alone, err := b.neighbour(ctx, c, id.User, op, "alone")
	if err != nil {
		return err
	}
	changing, stop := context.WithCancel(ctx)
	changes := make(chan tenantChanges, 1)
	go func() { changes <- change(changing, c.Wire, tenant) }()
	beside, err := b.neighbour(ctx, c, id.User, op, "beside")
	stop()
	made := <-changes
	if err := errors.Join(err, made.err); err != nil {
		return err
	}
	b.reportFairness(alone, beside, fmt.Sprintf("%d changes of %d custom resources meanwhile", made.n, len(tenant)))
	return nil
}

// tenantChanges are how many changes the tenant made, and what ended them before the measurement did.
type tenantChanges struct {
	n   int
	err error
}

// change scales the servers of the tenant one after the other until the context ends.
func change(ctx context.Context, wire *world.Wire, tenant []world.Service) tenantChanges {
	out := tenantChanges{}
	for ; ; out.n++ {
		s := tenant[out.n%len(tenant)]
		path := fmt.Sprintf("/apis/servapi.dev-state.com/v1alpha1/namespaces/%s/tfservs/%s", s.Namespace, s.Name)
		body := fmt.Sprintf(`{"spec":{"replicas":%d}}`, 2-out.n/len(tenant)%2)
		_, err := wire.Do(ctx, "PATCH", path, "application/merge-patch+json", []byte(body))
		if ctx.Err() != nil {
			return out
		}
		if err != nil {
			out.err = err
			return out
		}
		if world.Pause(ctx, tenantPause) != nil {
			return out
		}
	}
}

// neighbour makes the custom resources of a tenant in namespaces of its own, and changes a child of each.
func (b *Bench) neighbour(ctx context.Context, c *world.Cluster, user string, op *world.Operator, name string) (neighbour, error) {
	services := world.Services(world.Tutorial, name, 0, b.Config.Neighbours)
	if err := c.Prepare(ctx, services); err != nil {
		return neighbour{}, err
	}
	b.say("making %d custom resources of another tenant, %s", len(services), name)
	ready, err := b.readyOfNamespaces(ctx, c, op, services, name)
	if err != nil {
		return neighbour{}, err
	}
	var targets []child
	for _, s := range services {
		targets = append(targets, child{
			object: audit.Object{Resource: "services", NS: s.Namespace, Name: s.Name + "-service"},
			path:   fmt.Sprintf("/api/v1/namespaces/%s/services/%s-service", s.Namespace, s.Name),
		})
	}
	mark := c.Audit.Mark()
	b.say("changing a child of each")
	for _, target := range targets {
		if err := errors.Join(target.spoil(ctx, c.Wire), world.Pause(ctx, driftPause)); err != nil {
			return neighbour{}, err
		}
	}
	for _, target := range targets {
		if err := until(ctx, func() error {
			if wrong, err := target.spoiled(ctx, c.Wire); wrong || err != nil {
				return errors.Join(fmt.Errorf("%s is not repaired", target.object), err)
			}
			return nil
		}, op); err != nil {
			return neighbour{}, err
		}
	}
	// The log has the repair once the request that made it has ended.
	if err := world.Pause(ctx, settled); err != nil {
		return neighbour{}, err
	}
	entries, err := c.Audit.Entries(mark, "")
	if err != nil {
		return neighbour{}, err
	}
	return neighbour{ready: ready, repaired: repairs(entries, user, targets)["services changed"]}, nil
}

// readyOfNamespaces makes custom resources and waits until each was Ready once, whatever others in the cluster do.
func (b *Bench) readyOfNamespaces(
	ctx context.Context, c *world.Cluster, op *world.Operator, services []world.Service, prefix string,
) ([]float64, error) {
	follower, err := c.Follow(ctx, services[0].Shape.Resource, func(f world.Followed) bool {
		return isReady(f) && strings.HasPrefix(f.Metadata.Namespace, prefix+"-")
	}, nil)
	if err != nil {
		return nil, err
	}
	defer follower.Stop()
	created, err := b.create(ctx, c, services, nil)
	if err != nil {
		return nil, err
	}
	if err := follower.Await(ctx, len(services), readyTimeout, op.Running); err != nil {
		return nil, err
	}
	return secondsToReady(services, created, follower.Ready()), nil
}

func (b *Bench) reportFairness(alone, beside neighbour, load string) {
	for _, m := range []struct {
		id, what      string
		alone, beside []float64
	}{
		{"fairness.ready", "time to Ready beside a busy tenant, over the same alone", alone.ready, beside.ready},
		{"fairness.drift", "drift repair beside a busy tenant, over the same alone", alone.repaired, beside.repaired},
	} {
		a, s := stat.Summarize(m.alone), stat.Summarize(m.beside)
		b.Result.Add(report.Measure{
			ID: m.id, What: m.what, Value: s.P99 / a.P99, Unit: "×", Statistic: fmt.Sprintf("p99 of %d over p99 of %d", s.N, a.N),
			Detail: fmt.Sprintf("p99 %s over %s, median %s over %s; %s", report.Number(s.P99, "s"), report.Number(a.P99, "s"),
				report.Number(s.P50, "s"), report.Number(a.P50, "s"), load),
		})
	}
}
