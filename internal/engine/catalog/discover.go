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

// discoveryWorkers is the number of concurrent discoveries. An aggregated API server that does not respond blocks its discovery
// until the request times out, which must not block the discovery of others.
const discoveryWorkers = 3

// task is one discovery: of the APIs of an APIService or, if the name is empty, of the built-in APIs.
type task struct{ apiService string }

func (c *Catalog) runWorker(ctx context.Context) {
	for {
		item, stop := c.tasks.Get()
		if stop {
			return
		}
		err := c.process(ctx, item)
		switch {
		case err == nil:
			c.tasks.Forget(item)
		case ctx.Err() == nil:
			c.log.V(1).Info("discovery failed; it is retried", "apiService", item.apiService, "error", err.Error())
			c.tasks.AddRateLimited(item)
		}
		c.tasks.Done(item)
	}
}

func (c *Catalog) process(ctx context.Context, item task) error {
	if item.apiService != "" {
		return c.discoverAPIService(ctx, item.apiService)
	}
	lists, failed, err := c.discoverAll(ctx)
	if err != nil {
		return err
	}
	c.setBuiltIn(lists, failed)
	return c.builtinDiscoveryError(failed)
}

// The initial discovery is retried sooner than later ones, because everything waits for it.
var (
	initialDiscoveryRetry = backoff.Policy{First: 200 * time.Millisecond, Longest: 30 * time.Second}
	discoveryRetry        = backoff.Unwatched
)

// discoverInitial discovers all APIs at the start. Groups that do not respond are retried later.
func (c *Catalog) discoverInitial(ctx context.Context) error {
	var retry backoff.Retry
	for {
		lists, failed, err := c.discoverAll(ctx)
		if err == nil {
			c.readServerVersion(ctx)
			c.setBuiltIn(lists, failed)
			c.seedAggregatedAPIs(lists)
			if err := c.builtinDiscoveryError(failed); err != nil {
				c.log.Info("some APIs do not respond; their discovery is retried", "error", err.Error())
				c.tasks.AddRateLimited(task{})
			}
			return nil
		}
		c.log.Info("discovery failed; it is retried", "error", err.Error())
		now := c.clock.Now()
		timer := c.clock.NewTimer(retry.Failed(initialDiscoveryRetry, "", now).Sub(now))
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("discover the APIs of the cluster: %w", err)
		}
	}
}

// readServerVersion reads the version of the API server. Only charts that compare it depend on it, so an error is only logged.
func (c *Catalog) readServerVersion(ctx context.Context) {
	info, err := c.disco.ServerVersionWithContext(ctx)
	if err != nil {
		c.log.Info("API server version is unknown", "error", err.Error())
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = info.GitVersion
}

// discoverAll returns the resource lists of all APIs, those of the preferred version of each group first, and the errors of the
// group versions that did not respond.
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

// builtinDiscoveryError returns the error of a built-in group version that did not respond. Aggregated ones have tasks of their
// own.
func (c *Catalog) builtinDiscoveryError(failed map[schema.GroupVersion]error) error {
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
	for _, s := range c.apiServices {
		if s.version == gv {
			return true
		}
	}
	return false
}

// setBuiltIn replaces the built-in APIs by those discovered, except in groups that did not respond.
func (c *Catalog) setBuiltIn(lists []*metav1.APIResourceList, failed map[schema.GroupVersion]error) {
	failedGroups := map[string]bool{}
	for gv := range failed {
		failedGroups[gv.Group] = true
	}
	c.update(func(dc *discoveryCache) []schema.GroupKind {
		next := fromResourceLists(lists, c.aggregatedLocked, func(gk schema.GroupKind) bool {
			return slices.ContainsFunc(dc.kinds[gk], func(e entry) bool { return e.source.rank == sourceCRD })
		})
		return dc.replace(discoverySource, next, func(gk schema.GroupKind) bool { return failedGroups[gk.Group] })
	})
}

// seedAggregatedAPIs takes the available aggregated APIs from the initial discovery, so that the catalog has them when Start
// returns, without another request to each server.
func (c *Catalog) seedAggregatedAPIs(lists []*metav1.APIResourceList) {
	c.mu.RLock()
	var names []string
	for name, s := range c.apiServices {
		if s.available {
			names = append(names, name)
		}
	}
	c.mu.RUnlock()
	for _, name := range names {
		c.setAggregatedAPIs(name, lists)
	}
}

// discoverAPIService discovers the APIs of one APIService.
func (c *Catalog) discoverAPIService(ctx context.Context, name string) error {
	c.mu.RLock()
	s := c.apiServices[name]
	c.mu.RUnlock()
	if s == nil || !s.available {
		c.setAggregatedAPIs(name, nil)
		return nil
	}
	list, err := c.disco.ServerResourcesForGroupVersionWithContext(ctx, s.version.String())
	if err != nil {
		return fmt.Errorf("discover %s: %w", s.version, err)
	}
	c.setAggregatedAPIs(name, []*metav1.APIResourceList{list})
	return nil
}

// setAggregatedAPIs replaces the APIs of an APIService by the resources of its group version in lists. An APIService that is not
// available serves none.
func (c *Catalog) setAggregatedAPIs(name string, lists []*metav1.APIResourceList) {
	c.update(func(dc *discoveryCache) []schema.GroupKind {
		s := c.apiServices[name]
		serves := map[schema.GroupKind]api{}
		if s != nil && s.available {
			serves = fromResourceLists(lists, func(gv schema.GroupVersion) bool { return gv != s.version }, nil)
		}
		changed := dc.replace(apiSource{rank: sourceAPIService, name: name}, serves, nil)
		if s == nil {
			return changed
		}
		return append(changed, dc.removeVersions(func(gk schema.GroupKind, version string) bool {
			return gk.Group == s.version.Group && version == s.version.Version
		})...)
	})
}
