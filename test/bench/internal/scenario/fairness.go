package scenario

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
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

// fairness measures a tenant with few custom resources beside one with many that change all the time: with the manager that
// both share, and with a manager for each. The second is the isolation that is possible, since the changes cost the API
// server, the garbage collector and the machine the same in both. The same tenant alone is measured for the record.
func (b *Bench) fairness(ctx context.Context) error {
	c, id, err := b.boot(ctx)
	if err != nil {
		return err
	}
	defer c.Stop()
	shape := world.Tutorial
	shape.Together = b.Config.Tenant
	tenant := world.Services(shape, "tenant", 0, b.Config.Tenant)
	shared, err := b.managerOf(ctx, c, id, "shared")
	if err != nil {
		return err
	}
	defer shared.Stop(30 * time.Second)
	if err := c.Prepare(ctx, tenant); err != nil {
		return err
	}
	b.say("making %d custom resources of one tenant", len(tenant))
	if _, _, err := b.bringUp(ctx, c, shared.Process, tenant); err != nil {
		return err
	}
	if err := c.Quiet(ctx, settled, readyTimeout); err != nil {
		return err
	}
	f := fair{user: id.User, tenant: tenant}
	if f.alone, err = b.neighbour(ctx, c, f.user, shared, "alone"); err != nil {
		return err
	}
	if f.beside, err = b.besideChanges(ctx, c, shared, &f, "beside"); err != nil {
		return err
	}
	shared.Stop(30 * time.Second)
	if f.apart, err = b.apart(ctx, c, id, &f); err != nil {
		return err
	}
	b.reportFairness(&f)
	return nil
}

// fair is what is measured of two tenants.
type fair struct {
	user   string
	tenant []world.Service
	// alone is beside a tenant that changes nothing, beside and apart are beside one that does: with one manager for both, and
	// with one for each.
	alone, beside, apart neighbour
	// changes are how many the tenant made in each of the last two.
	changes []int
}

// managerOf starts a manager for Tfservs of some namespaces, all if none is given.
func (b *Bench) managerOf(ctx context.Context, c *world.Cluster, id *world.Identity, name string, namespaces ...string) (*world.Operator, error) {
	flags := []string{"--controllers=tfserving"}
	if len(namespaces) > 0 {
		flags = append(flags, "--namespaces="+strings.Join(namespaces, ","))
	}
	return b.managerWith(ctx, c, id, name, flags...)
}

// managerWith starts a manager without leader election, since managers of different tenants would share the lease.
func (b *Bench) managerWith(ctx context.Context, c *world.Cluster, id *world.Identity, name string, flags ...string) (*world.Operator, error) {
	op, err := c.Run(ctx, b.Config.Operator, name, id.Kubeconfig, world.LongLease, append(flags, "--leader-elect=false", "--source-dir="+filepath.Join(c.Dir, name))...)
	if err != nil {
		return nil, err
	}
	if err := op.AwaitReady(ctx, time.Minute); err != nil {
		op.Stop(30 * time.Second)
		return nil, err
	}
	return op, nil
}

// besideChanges measures the second tenant while the first one changes its custom resources.
func (b *Bench) besideChanges(ctx context.Context, c *world.Cluster, op *world.Operator, f *fair, name string) (neighbour, error) {
	changing, stop := context.WithCancel(ctx)
	changes := make(chan tenantChanges, 1)
	go func() { changes <- change(changing, c.Wire, f.tenant) }()
	measured, err := b.neighbour(ctx, c, f.user, op, name)
	stop()
	made := <-changes
	f.changes = append(f.changes, made.n)
	return measured, errors.Join(err, made.err)
}

// apart measures the second tenant with a manager of its own.
func (b *Bench) apart(ctx context.Context, c *world.Cluster, id *world.Identity, f *fair) (neighbour, error) {
	theirs, err := b.managerOf(ctx, c, id, "theirs", f.tenant[0].Namespace)
	if err != nil {
		return neighbour{}, err
	}
	defer theirs.Stop(30 * time.Second)
	var namespaces []string
	for _, s := range world.Services(world.Tutorial, "apart", 0, b.Config.Neighbours) {
		if !slices.Contains(namespaces, s.Namespace) {
			namespaces = append(namespaces, s.Namespace)
		}
	}
	own, err := b.managerOf(ctx, c, id, "own", namespaces...)
	if err != nil {
		return neighbour{}, err
	}
	defer own.Stop(30 * time.Second)
	// What the stop of the shared manager left half done is finished before the measurement.
	if err := c.Quiet(ctx, settled, readyTimeout); err != nil {
		return neighbour{}, err
	}
	return b.besideChanges(ctx, c, own, f, "apart")
}

// tenantChanges are how many changes the tenant made, and what ended them before the measurement did.
type tenantChanges struct {
	n   int
	err error
}

// change scales the servers of the tenant one after the other until the context ends.
func change(ctx context.Context, wire *world.Wire, tenant []world.Service) tenantChanges {
	return patchAgain(ctx, wire, tenantPause, func(n int) (path, body string) {
		s := tenant[n%len(tenant)]
		return fmt.Sprintf("/apis/servapi.dev-state.com/v1alpha1/namespaces/%s/tfservs/%s", s.Namespace, s.Name),
			fmt.Sprintf(`{"spec":{"replicas":%d}}`, 2-n/len(tenant)%2)
	})
}

// patchAgain sends one patch after the other, with a pause between them, until the context ends.
func patchAgain(ctx context.Context, wire *world.Wire, pause time.Duration, patch func(n int) (path, body string)) tenantChanges {
	out := tenantChanges{}
	for ; ; out.n++ {
		path, body := patch(out.n)
		_, err := wire.Do(ctx, "PATCH", path, "application/merge-patch+json", []byte(body))
		if ctx.Err() != nil {
			return out
		}
		if err != nil {
			out.err = err
			return out
		}
		if world.Pause(ctx, pause) != nil {
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

func (b *Bench) reportFairness(f *fair) {
	f.report(b, "fairness", "beside a busy tenant",
		fmt.Sprintf("%d and %d changes of %d custom resources meanwhile", f.changes[0], f.changes[1], len(f.tenant)))
}

// report adds the ratios of a scenario. What the other tenant does is said twice: beside it, and how much of it there was.
func (f *fair) report(b *Bench, id, beside, load string) {
	for _, m := range []struct {
		id, what     string
		beside, base []float64
	}{
		{"ready", "time to Ready " + beside + ", one manager for both over one for each", f.beside.ready, f.apart.ready},
		{"drift", "drift repair " + beside + ", one manager for both over one for each", f.beside.repaired, f.apart.repaired},
		{"readyAlone", "time to Ready " + beside + ", over the same without it", f.beside.ready, f.alone.ready},
		{"driftAlone", "drift repair " + beside + ", over the same without it", f.beside.repaired, f.alone.repaired},
	} {
		s, base := stat.Summarize(m.beside), stat.Summarize(m.base)
		b.Result.Add(report.Measure{
			ID: id + "." + m.id, What: m.what, Value: s.P99 / base.P99, Unit: "×", Statistic: fmt.Sprintf("p99 of %d over p99 of %d", s.N, base.N),
			Detail: fmt.Sprintf("p99 %s over %s, median %s over %s; %s", report.Number(s.P99, "s"), report.Number(base.P99, "s"),
				report.Number(s.P50, "s"), report.Number(base.P50, "s"), load),
		})
	}
}
