package catalog

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"mlkeeper.dev/internal/engine/backoff"
)

// discoverers is how many discoveries run at a time. One aggregated server that does not answer holds up its own
// discovery until the request times out, and must not hold up others.
const discoverers = 3

// task is one discovery to do: that of one APIService or, with no name, that of everything built in.
type task struct{ service string }

func (c *Catalog) work(ctx context.Context) {
	for {
		what, stop := c.tasks.Get()
		if stop {
			return
		}
		err := c.do(ctx, what)
		switch {
		case err == nil:
			c.tasks.Forget(what)
		case ctx.Err() == nil:
			c.log.V(1).Info("discovery failed and is retried", "apiService", what.service, "error", err.Error())
			c.tasks.AddRateLimited(what)
		}
		c.tasks.Done(what)
	}
}

func (c *Catalog) do(ctx context.Context, what task) error {
	if what.service != "" {
		return c.discoverService(ctx, what.service)
	}
	lists, failed, err := c.discoverAll(ctx)
	if err != nil {
		return err
	}
	c.setBuiltIn(lists, failed)
	return c.uncovered(failed)
}

// The retries of the discovery at start, for which everything waits, and of those that follow.
var (
	firstDiscoveryRetry = backoff.Policy{First: 200 * time.Millisecond, Longest: 30 * time.Second}
	discoveryRetry      = backoff.Policy{First: time.Second, Longest: backoff.Longest}
)

// discoverFirst does the discovery at start. Groups that do not answer are retried later.
func (c *Catalog) discoverFirst(ctx context.Context) error {
	var retry backoff.Retry
	for {
		lists, failed, err := c.discoverAll(ctx)
		if err == nil {
			c.learnVersion(ctx)
			c.setBuiltIn(lists, failed)
			c.seedServices(lists)
			if err := c.uncovered(failed); err != nil {
				c.log.Info("some APIs do not answer; their discovery is retried", "error", err.Error())
				c.tasks.AddRateLimited(task{})
			}
			return nil
		}
		c.log.Info("discovery failed and is retried", "error", err.Error())
		now := c.clock.Now()
		timer := c.clock.NewTimer(retry.Failed(firstDiscoveryRetry, "", now).Sub(now))
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("discover the APIs of the cluster: %w", err)
		}
	}
}

// learnVersion asks for the version of the API server. Nothing but the text that charts compare depends on it.
func (c *Catalog) learnVersion(ctx context.Context) {
	info, err := c.disco.ServerVersionWithContext(ctx)
	if err != nil {
		c.log.Info("the API server does not tell its version", "error", err.Error())
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = info.GitVersion
}

// discoverAll reads everything the cluster serves, the preferred version of each group first, and the group versions
// which did not answer.
func (c *Catalog) discoverAll(ctx context.Context) (lists []*metav1.APIResourceList, failed map[schema.GroupVersion]error, err error) {
	groups, lists, err := c.disco.ServerGroupsAndResourcesWithContext(ctx)
	failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !partial {
		return nil, nil, fmt.Errorf("discover the APIs of the cluster: %w", err)
	}
	preferred := make(map[string]bool, len(groups))
	for _, g := range groups {
		preferred[g.PreferredVersion.GroupVersion] = true
	}
	slices.SortStableFunc(lists, func(a, b *metav1.APIResourceList) int {
		switch {
		case preferred[a.GroupVersion] == preferred[b.GroupVersion]:
			return 0
		case preferred[a.GroupVersion]:
			return -1
		default:
			return 1
		}
	})
	return lists, failed, nil
}

// uncovered returns an error when a group version that did not answer is not the business of an APIService's own task.
func (c *Catalog) uncovered(failed map[schema.GroupVersion]error) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for gv, err := range failed {
		if !c.aggregatedLocked(gv) {
			return fmt.Errorf("discover %s: %w", gv, err)
		}
	}
	return nil
}

func (c *Catalog) aggregatedLocked(gv schema.GroupVersion) bool {
	for _, s := range c.services {
		if s.version == gv {
			return true
		}
	}
	return false
}

// setBuiltIn replaces what is known of the built-in APIs by what was discovered, but for groups which did not answer.
func (c *Catalog) setBuiltIn(lists []*metav1.APIResourceList, failed map[schema.GroupVersion]error) {
	silent := map[string]bool{}
	for gv := range failed {
		silent[gv.Group] = true
	}
	c.change(func(b *book) []schema.GroupKind {
		next := collect(lists, c.aggregatedLocked, func(gk schema.GroupKind) bool {
			return slices.ContainsFunc(b.kinds[gk], func(e entry) bool { return e.origin.rank == fromDefinition })
		})
		return b.put(discovered, next, func(gk schema.GroupKind) bool { return silent[gk.Group] })
	})
}

// seedServices takes over what the first discovery told of aggregated APIs that are available, so that they are known
// when Start returns without asking each server again.
func (c *Catalog) seedServices(lists []*metav1.APIResourceList) {
	c.mu.RLock()
	var names []string
	for name, s := range c.services {
		if s.available {
			names = append(names, name)
		}
	}
	c.mu.RUnlock()
	for _, name := range names {
		c.setServiceAPIs(name, lists)
	}
}

// discoverService brings what is known of one aggregated API up to date.
func (c *Catalog) discoverService(ctx context.Context, name string) error {
	c.mu.RLock()
	s := c.services[name]
	c.mu.RUnlock()
	if s == nil || !s.available {
		c.setServiceAPIs(name, nil)
		return nil
	}
	list, err := c.disco.ServerResourcesForGroupVersionWithContext(ctx, s.version.String())
	if err != nil {
		return fmt.Errorf("discover %s: %w", s.version, err)
	}
	c.setServiceAPIs(name, []*metav1.APIResourceList{list})
	return nil
}

// setServiceAPIs replaces what an APIService serves by the resources of its group version in lists, or by nothing while
// it is not available.
func (c *Catalog) setServiceAPIs(name string, lists []*metav1.APIResourceList) {
	c.change(func(b *book) []schema.GroupKind {
		s := c.services[name]
		serves := map[schema.GroupKind]api{}
		if s != nil && s.available {
			serves = collect(lists, func(gv schema.GroupVersion) bool { return gv != s.version }, nil)
		}
		changed := b.put(origin{rank: fromService, name: name}, serves, nil)
		if s == nil {
			return changed
		}
		return append(changed, b.disown(func(gk schema.GroupKind, version string) bool {
			return gk.Group == s.version.Group && version == s.version.Version
		})...)
	})
}
