package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/watch/source"
)

// rediscoveryInterval is the shortest time between two discoveries that reported 404s cause.
const rediscoveryInterval = time.Minute

// Mapping is the resource of a served kind, like that of a RESTMapper.
type Mapping struct {
	Resource   schema.GroupVersionResource
	Namespaced bool
}

// Catalog knows which APIs the cluster serves.
type Catalog struct {
	disco discovery.DiscoveryInterfaceWithContext
	dyn   dynamic.Interface
	log   logr.Logger
	clock clock.WithTicker

	// changeMu is held from a change of the cache until its callbacks have returned, so that callbacks see changes in order.
	// No method that a callback may call locks it.
	changeMu sync.Mutex

	mu        sync.RWMutex
	cache     *discoveryCache
	version   string
	callbacks []func(schema.GroupKind, bool)
	// apiServices are the aggregated APIs by the name of their APIService.
	apiServices map[string]*apiServiceInfo
	// rediscovered is when a reported 404 last led to a discovery; a time in the future is that of a scheduled discovery.
	rediscovered map[task]time.Time

	// tasks is nil until Start, because a queue starts goroutines.
	tasks workqueue.TypedRateLimitingInterface[task]
	wg    sync.WaitGroup
}

// New returns a catalog that is empty until it is started.
func New(disco discovery.DiscoveryInterface, dyn dynamic.Interface, log logr.Logger) *Catalog {
	return newWithClock(disco, dyn, log, source.RealClock)
}

func newWithClock(disco discovery.DiscoveryInterface, dyn dynamic.Interface, log logr.Logger, c clock.WithTicker) *Catalog {
	return &Catalog{
		disco: discovery.ToDiscoveryInterfaceWithContext(disco), dyn: dyn, log: log, clock: c,
		cache: newDiscoveryCache(), apiServices: map[string]*apiServiceInfo{}, rediscovered: map[task]time.Time{},
	}
}

// Start discovers the APIs of the cluster, and watches them until ctx is done. It returns when the catalog is complete. The
// catalog may then still miss aggregated APIs whose server does not respond; they are added when it does. Start does not return
// while the watch on CustomResourceDefinitions is forbidden; that is logged and retried (invariant 15).
func (c *Catalog) Start(ctx context.Context) error {
	c.mu.Lock()
	tasks := workqueue.NewTypedRateLimitingQueueWithConfig(
		backoff.NewLimiter[task](discoveryRetry, c.clock),
		workqueue.TypedRateLimitingQueueConfig[task]{Clock: c.clock})
	c.tasks = tasks
	c.mu.Unlock()
	c.wg.Go(func() {
		<-ctx.Done()
		tasks.ShutDown()
	})
	crdsSynced, err := c.watchCRDs(ctx)
	if err != nil {
		return err
	}
	apiServicesSynced, watchBackoff, err := c.watchAPIServices(ctx)
	if err != nil {
		return err
	}
	if err := waitFor(ctx, c.clock, crdsSynced); err != nil {
		return fmt.Errorf("wait for the list of CustomResourceDefinitions: %w", err)
	}
	// If the watch on APIServices is forbidden, aggregated APIs count as built in.
	if err := waitFor(ctx, c.clock, func() bool { return apiServicesSynced() || watchBackoff.Forbidden() != nil }); err != nil {
		return fmt.Errorf("wait for the list of APIServices: %w", err)
	}
	// Discovery comes last, so that the API of a CustomResourceDefinition that is deleted before does not count as built in.
	if err := c.discoverInitial(ctx); err != nil {
		return err
	}
	for range discoveryWorkers {
		c.wg.Go(func() { c.runWorker(ctx) })
	}
	return nil
}

// Wait waits until all goroutines of Start have returned, which they do when its context is done.
func (c *Catalog) Wait() { c.wg.Wait() }

// Lookup returns the mapping of a kind in a version, and false if it is not served. It never reads from the cluster.
func (c *Catalog) Lookup(gvk schema.GroupVersionKind) (Mapping, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	m, _, ok := c.cache.lookup(gvk)
	return m, ok
}

// Versions returns the served versions of a kind, the preferred one first.
func (c *Catalog) Versions(gk schema.GroupKind) []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.cache.versions(gk)
}

// ForeignCRDError returns an error if the CustomResourceDefinition of one of MLKeeper's kinds belongs to another operator; nil if
// it is MLKeeper's or not served.
func (c *Catalog) ForeignCRDError(gk schema.GroupKind) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	webhook := c.cache.conversionWebhook(gk)
	if webhook == "" {
		return nil
	}
	return ForeignCRDError(c.cache.kinds[gk][0].api.resource+"."+gk.Group, webhook)
}

// Definition returns the generation of the CustomResourceDefinition of a kind, which changes with its schema, and since when it is that
// one; 0 if the kind has no CustomResourceDefinition.
func (c *Catalog) Definition(gk schema.GroupKind) (generation int64, since time.Time) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.cache.generation(gk)
}

// ServesVersion reports whether any kind of a group and version is served.
func (c *Catalog) ServesVersion(gv schema.GroupVersion) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for gk := range c.cache.kinds {
		if gk.Group == gv.Group && slices.Contains(c.cache.versions(gk), gv.Version) {
			return true
		}
	}
	return false
}

// Kinds returns every kind that is served, in every version, ordered by their names.
func (c *Catalog) Kinds() []schema.GroupVersionKind {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var out []schema.GroupVersionKind
	for gk := range c.cache.kinds {
		for _, v := range c.cache.versions(gk) {
			out = append(out, gk.WithVersion(v))
		}
	}
	slices.SortFunc(out, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// KubernetesVersion returns the version that the API server reported at the start, such as v1.36.2; empty if it reported none.
func (c *Catalog) KubernetesVersion() string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.version
}

// OnChange registers a callback that is called when a kind is served for the first time or no longer, or when its versions, its
// resource, its conversion webhook or its schema change. served says whether any version is served. Callbacks are called one at a time, in
// the order of the changes. They may call the methods of the catalog, and must not block.
func (c *Catalog) OnChange(f func(gk schema.GroupKind, served bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.callbacks = append(c.callbacks, f)
}

// CRDExists reads the CustomResourceDefinition of a resource live, and reports whether it exists. An error does not prove that it
// was deleted (invariant 4).
func (c *Catalog) CRDExists(ctx context.Context, resource schema.GroupResource) (bool, error) {
	_, err := c.dyn.Resource(crdResource).Get(ctx, resource.String(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get CustomResourceDefinition %s: %w", resource, err)
	}
	return true, nil
}

// ReportNotFound reports that the cluster answered 404 for a kind. The API of the kind is discovered again, at most once per
// rediscoveryInterval, unless the watch on CustomResourceDefinitions covers it.
func (c *Catalog) ReportNotFound(gvk schema.GroupVersionKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tasks == nil {
		return
	}
	item := task{}
	if _, src, ok := c.cache.lookup(gvk); ok {
		switch src.rank {
		case sourceCRD:
			return
		case sourceAPIService:
			item.apiService = src.name
		}
	}
	now := c.clock.Now()
	last, ok := c.rediscovered[item]
	if !ok || now.Sub(last) >= rediscoveryInterval {
		c.rediscovered[item] = now
		c.tasks.Add(item)
		return
	}
	// A time in the future means that the next discovery is already scheduled.
	if last.After(now) {
		return
	}
	due := last.Add(rediscoveryInterval)
	c.rediscovered[item] = due
	c.tasks.AddAfter(item, due.Sub(now))
}

// update applies a change to the cache, and calls the callbacks for the kinds that apply returns.
func (c *Catalog) update(apply func(*discoveryCache) []schema.GroupKind) {
	c.changeMu.Lock()
	defer c.changeMu.Unlock()
	c.mu.Lock()
	changed := apply(c.cache)
	served := make([]bool, len(changed))
	for i, gk := range changed {
		served[i] = len(c.cache.kinds[gk]) > 0
	}
	callbacks := slices.Clone(c.callbacks)
	c.mu.Unlock()
	for i, gk := range changed {
		for _, f := range callbacks {
			f(gk, served[i])
		}
	}
}

// waitFor polls until done returns true or ctx is done.
func waitFor(ctx context.Context, c clock.WithTicker, done func() bool) error {
	ticker := c.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C():
		}
	}
	return nil
}
