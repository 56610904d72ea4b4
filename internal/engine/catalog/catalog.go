package catalog

import (
	"context"
	"fmt"
	"slices"
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

// suspectPause is how often at most reported 404s lead to another discovery.
const suspectPause = time.Minute

// Mapping is how a served kind is addressed.
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

	// order is held from a change of the book until its callbacks returned, so that callbacks see changes in order.
	// It is never taken by a method that a callback may call.
	order sync.Mutex

	mu        sync.RWMutex
	book      *book
	version   string
	callbacks []func(schema.GroupKind, bool)
	// young tells which definitions have only just become served.
	young young
	// services are the aggregated APIs, by the name of their APIService.
	services map[string]*service
	// refreshed is when a suspicion last led to a discovery.
	refreshed map[task]time.Time

	// tasks is nil until Start, because a queue runs goroutines of its own.
	tasks workqueue.TypedRateLimitingInterface[task]
	wg    sync.WaitGroup
}

// New returns a catalog that knows nothing until it is started.
func New(disco discovery.DiscoveryInterface, dyn dynamic.Interface, log logr.Logger) *Catalog {
	return newWithClock(disco, dyn, log, source.RealClock)
}

func newWithClock(disco discovery.DiscoveryInterface, dyn dynamic.Interface, log logr.Logger, c clock.WithTicker) *Catalog {
	return &Catalog{
		disco: discovery.ToDiscoveryInterfaceWithContext(disco), dyn: dyn, log: log, clock: c,
		book: newBook(), young: young{}, services: map[string]*service{}, refreshed: map[task]time.Time{},
	}
}

// Start reads what the cluster serves and keeps watching until ctx is done. It returns once the catalog is complete,
// but for aggregated APIs whose server does not answer; those follow when it does. While the right to watch
// CustomResourceDefinitions is missing it does not return; the refusal is logged and retried (law 15).
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
	definitions, err := c.watchDefinitions(ctx)
	if err != nil {
		return err
	}
	services, refusal, err := c.watchServices(ctx)
	if err != nil {
		return err
	}
	if err := waitFor(ctx, c.clock, definitions); err != nil {
		return fmt.Errorf("wait for the list of CustomResourceDefinitions: %w", err)
	}
	// Without the right to watch APIServices everything that is aggregated counts as built in.
	if err := waitFor(ctx, c.clock, func() bool { return services() || refusal.Refused() != nil }); err != nil {
		return fmt.Errorf("wait for the list of APIServices: %w", err)
	}
	// Discovery comes last, so that a definition deleted before it is not taken for built in.
	if err := c.discoverFirst(ctx); err != nil {
		return err
	}
	for range discoverers {
		c.wg.Go(func() { c.work(ctx) })
	}
	return nil
}

// Wait returns when everything that Start began has ended, which it does once its context is done.
func (c *Catalog) Wait() { c.wg.Wait() }

// Lookup returns how a kind in a version is addressed, and false while it is not served. It never reads the cluster.
func (c *Catalog) Lookup(gvk schema.GroupVersionKind) (Mapping, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	m, _, ok := c.book.lookup(gvk)
	return m, ok
}

// Versions returns the served versions of a kind, the preferred one first.
func (c *Catalog) Versions(gk schema.GroupKind) []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.book.versions(gk)
}

// Foreign is the error of the definition of a kind of MLKeeper's that is another operator's; nil where it is MLKeeper's, or
// is not served.
func (c *Catalog) Foreign(gk schema.GroupKind) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	converter := c.book.converter(gk)
	if converter == "" {
		return nil
	}
	return Foreign(c.book.kinds[gk][0].api.resource+"."+gk.Group, converter)
}

// ServesVersion says whether any kind of a group and version is served.
func (c *Catalog) ServesVersion(gv schema.GroupVersion) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for gk := range c.book.kinds {
		if gk.Group == gv.Group && slices.Contains(c.book.versions(gk), gv.Version) {
			return true
		}
	}
	return false
}

// KubernetesVersion is the version that the API server told at the start, such as v1.36.2; empty where it told none.
func (c *Catalog) KubernetesVersion() string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.version
}

// OnChange registers a callback that is called after a kind became served, ceased to be, or is served in other versions,
// under another resource or with another converter; served tells whether any version is. Callbacks are called one at a time, in the order of
// the changes, with no lock held that the methods of the catalog take; they must not block.
func (c *Catalog) OnChange(f func(gk schema.GroupKind, served bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.callbacks = append(c.callbacks, f)
}

// CRDThere says whether a live read shows the CustomResourceDefinition of a resource. An error is no proof that it is
// gone (law 4).
func (c *Catalog) CRDThere(ctx context.Context, resource schema.GroupResource) (bool, error) {
	_, err := c.dyn.Resource(crdResource).Get(ctx, resource.String(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask whether the CustomResourceDefinition %s is there: %w", resource, err)
	}
	return true, nil
}

// Suspect reports that the cluster answered 404 for a kind. What a watch does not cover is discovered again, at most
// once a minute.
func (c *Catalog) Suspect(gvk schema.GroupVersionKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tasks == nil {
		return
	}
	what := task{}
	if _, src, ok := c.book.lookup(gvk); ok {
		switch src.rank {
		case fromDefinition:
			return
		case fromService:
			what.service = src.name
		}
	}
	now := c.clock.Now()
	last, ok := c.refreshed[what]
	if !ok || now.Sub(last) >= suspectPause {
		c.refreshed[what] = now
		c.tasks.Add(what)
		return
	}
	// A time to come says that the next discovery is due already.
	if last.After(now) {
		return
	}
	due := last.Add(suspectPause)
	c.refreshed[what] = due
	c.tasks.AddAfter(what, due.Sub(now))
}

// change applies a change of the book and calls the callbacks for the kinds it returns.
func (c *Catalog) change(apply func(*book) []schema.GroupKind) {
	c.order.Lock()
	defer c.order.Unlock()
	c.mu.Lock()
	changed := apply(c.book)
	served := make([]bool, len(changed))
	for i, gk := range changed {
		served[i] = len(c.book.kinds[gk]) > 0
	}
	callbacks := slices.Clone(c.callbacks)
	c.mu.Unlock()
	for i, gk := range changed {
		for _, f := range callbacks {
			f(gk, served[i])
		}
	}
}

// waitFor returns once done says so.
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
