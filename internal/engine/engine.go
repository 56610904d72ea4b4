package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/background"
	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/engine/digestkey"
	"mlkeeper.dev/internal/engine/fieldownership"
	"mlkeeper.dev/internal/engine/impersonation"
	"mlkeeper.dev/internal/engine/inventory"
	"mlkeeper.dev/internal/engine/listing"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/reader"
	"mlkeeper.dev/internal/engine/rollout"
	"mlkeeper.dev/internal/engine/sanitize"
	"mlkeeper.dev/internal/engine/shard"
	"mlkeeper.dev/internal/engine/status"
	"mlkeeper.dev/internal/engine/watch"
	"mlkeeper.dev/internal/engine/watch/source"
)

// Options configure an engine.
type Options struct {
	// OperatorNamespace is where the engine stores what belongs to the installation as a whole: the key of the digests.
	OperatorNamespace string
	// Namespaces restricts every watch of namespaced objects; empty means all.
	Namespaces []string
	// Shards restrict the engine to the custom resources of the shards that this manager holds, whether it is the leader or not; nil means
	// all custom resources, while this manager is the leader.
	Shards *shard.Shards
	// Concurrency is the number of reconciles per kind that run at once; the default is 16.
	Concurrency int
	// Rendering is called when a rendering begins, which makes much garbage. Nil is told nothing.
	Rendering func()
	// Clock is the engine's clock; the default is the real one.
	Clock clock.WithTicker
	Log   logr.Logger
}

const (
	defaultConcurrency = 16
	// reconcileTimeout bounds one reconcile, so that a hanging API server never holds a worker for ever.
	reconcileTimeout = time.Minute
	// reportTime is what of that is left for the report, whatever the steps before it wait for.
	reportTime = 15 * time.Second
)

// Engine runs the loop for every registered controller.
type Engine struct {
	Options
	mgr       manager.Manager
	client    dynamic.Interface
	metadata  metadata.Interface
	disco     discovery.DiscoveryInterface
	catalog   *catalog.Catalog
	informers *watch.Manager
	actor     *act.Actor
	recorder  events.EventRecorder
	metrics   *engineMetrics
	readers   *reader.Readers
	jobs      *background.Jobs[watch.Referrer]
	digests   *digestkey.Store
	rollouts  rollout.Slot
	// debounce counts the custom resources that progress.
	debounce status.Debounce
	// inventories stores the Inventories of all controllers.
	inventories *inventory.Store
	// finalizations is the queue of deleted custom resources that have Inventories.
	finalizations *queue

	mu          sync.Mutex
	controllers map[schema.GroupKind]reconciler
}

// reconciler is the part of a controller's reconciler that the engine needs without knowing its type.
type reconciler interface {
	enqueue(namespace, name string)
	enqueueAll()
	enqueueWires(namespace string)
	enqueueShard(shard int)
	dropShard(shard int)
	serves(gk schema.GroupKind) bool
	anyChildren() bool
	watchFinalization(uid types.UID, listed map[plan.Key]keeper.InventoryEntry) (synced bool)
	finalized(uid types.UID)
	groupResource() schema.GroupResource
	controllerName() string
	alive(namespace, name string) (uid string, found, known bool)
}

// New makes an engine on a manager. Controllers are registered with Register before the manager starts.
func New(mgr manager.Manager, opts Options) (*Engine, error) {
	if opts.OperatorNamespace == "" {
		return nil, errors.New("the namespace of the operator is not known outside a pod: name it with --leader-election-namespace")
	}
	if opts.Concurrency <= 0 {
		opts.Concurrency = defaultConcurrency
	}
	if opts.Rendering == nil {
		opts.Rendering = func() {}
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	// The watches and writes of the engine must not be slowed down by a client-side limit: the API server's own
	// priority and fairness decides.
	cfg := rest.CopyConfig(mgr.GetConfig())
	cfg.QPS = -1
	listing.Bound(cfg)
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make the dynamic client: %w", err)
	}
	meta, err := metadata.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make the metadata client: %w", err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make the discovery client: %w", err)
	}
	builtin, err := source.NewBuiltin(cfg)
	if err != nil {
		return nil, err
	}
	watched, err := source.NewDynamic(cfg)
	if err != nil {
		return nil, err
	}
	source.ServeMetrics()
	e := &Engine{
		Options: opts, mgr: mgr, client: dyn, metadata: meta, disco: disco, controllers: map[schema.GroupKind]reconciler{},
		catalog:  catalog.New(disco, watched, opts.Log.WithName("catalog")),
		recorder: mgr.GetEventRecorder("mlkeeper"), metrics: newMetrics(opts.Clock),
	}
	e.rollouts.Changed = e.metrics.rollout
	e.informers = watch.New(watch.Options{
		Metadata: meta, Dynamic: watched, Builtin: builtin, Catalog: e.catalog, Namespaces: opts.Namespaces, Log: opts.Log.WithName("watch"),
		Clock: opts.Clock, OnSynced: e.watchSynced, OnForbidden: e.reportNoRights,
	})
	e.actor = &act.Actor{
		Client: dyn, As: impersonation.New(cfg).For, Catalog: e.catalog, Memory: e.informers, Tracker: &fieldownership.Tracker{}, Clock: opts.Clock,
		Cleaner: sanitize.NewCleaner(disco.OpenAPIV3()), Log: opts.Log.WithName("act"), Count: e.metrics.write,
		CountFailed: e.metrics.writeFailed,
	}
	e.jobs = background.New(background.Options[watch.Referrer]{
		Clock: opts.Clock, Rendering: opts.Rendering, Done: func(h watch.Referrer) { e.enqueue(h.Kind, h.Namespace, h.Name) },
		Namespace: func(h watch.Referrer) string { return h.Namespace }, Log: opts.Log.WithName("background"),
		Failed: func(h watch.Referrer, cause string) { e.metrics.jobFailed(h.Kind.Kind, cause) },
	})
	e.digests = &digestkey.Store{
		Client: dyn, Namespace: opts.OperatorNamespace, Random: rand.Reader, Clock: opts.Clock, Log: opts.Log.WithName("digestkey"),
	}
	e.readers = &reader.Readers{
		Informers: e.informers, Catalog: e.catalog, Jobs: e.jobs, Clock: opts.Clock, DigestKey: e.digests.Key,
		Live: reader.Live{Catalog: e.catalog, Client: dyn, ResourceAs: e.actor.ResourceAs},
	}
	e.watchShards()
	e.informers.OnReferenceChange(func(h watch.Referrer) { e.enqueue(h.Kind, h.Namespace, h.Name) })
	e.catalog.OnChange(func(gk schema.GroupKind, _ bool) {
		e.enqueueUsersOf(gk)
		if _, ok := e.controller(gk); ok {
			if err := e.catalog.ForeignCRDError(gk); err != nil {
				opts.Log.Error(err, "not ready")
			}
			// The CRD of a controller may be gone, and its custom resources with it, of which no watch tells any more.
			e.enqueueFinalizations()
		}
	})
	if err := e.watchInventories(); err != nil {
		return nil, err
	}
	return e, mgr.Add(e)
}

// NeedLeaderElection says that the engine's watches run on a standby too, so that a fail-over starts warm.
func (e *Engine) NeedLeaderElection() bool { return false }

// Start runs the engine's watches until the context is done. The reconcilers are run by the manager once it leads.
func (e *Engine) Start(ctx context.Context) error {
	defer e.jobs.Stop()
	if err := e.catalog.Start(ctx); err != nil {
		return fmt.Errorf("learn which APIs the cluster serves: %w", err)
	}
	if err := e.informers.Start(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("run the watches: %w", err)
	}
	return nil
}

// Ready says whether every watch is complete, the key of the digests is loaded where it is needed, and the definitions of the controllers'
// kinds are MLKeeper's; it is the manager's readiness check.
func (e *Engine) Ready() error {
	e.mu.Lock()
	kinds := slices.SortedFunc(maps.Keys(e.controllers), func(a, b schema.GroupKind) int { return strings.Compare(a.String(), b.String()) })
	e.mu.Unlock()
	// A foreign definition may be why a watch is not complete: the objects of its stored version are converted by a webhook that is gone.
	failed := errors.Join(e.unsynced(), e.digests.Err())
	for _, gk := range kinds {
		failed = errors.Join(failed, e.catalog.ForeignCRDError(gk))
	}
	return failed
}

// unsynced says which watches are not complete: those that are forbidden by name, since they stay so until somebody grants a right.
func (e *Engine) unsynced() error {
	missing, running := e.informers.Unsynced()
	if running && len(missing) == 0 {
		return nil
	}
	failed := errors.New("not every watch is complete yet")
	for _, gk := range slices.SortedFunc(maps.Keys(missing), func(a, b schema.GroupKind) int { return strings.Compare(a.String(), b.String()) }) {
		if err := missing[gk]; err != nil {
			failed = errors.Join(failed, e.noRights(gk, err))
		}
	}
	return failed
}

// noRights says what to do about a watch that is forbidden. A controller that may not watch its own kind has been given no rights at all.
func (e *Engine) noRights(gk schema.GroupKind, err error) error {
	if r, own := e.controller(gk); own {
		return fmt.Errorf("the controller %s runs without its rights: switch on its component in config/components, or leave it out of --controllers: %w",
			r.controllerName(), err)
	}
	return fmt.Errorf("%s cannot be watched, `mlkeeper rbac` prints the roles: %w", gk, err)
}

// reportNoRights logs, as soon as it is known, that a controller has been given no rights.
func (e *Engine) reportNoRights(gk schema.GroupKind, err error) {
	if _, own := e.controller(gk); own {
		e.Log.Error(e.noRights(gk, err), "not ready")
	}
}

// Serves says whether the cluster serves a kind, by what the engine knows. It never reads the cluster.
func (e *Engine) Serves(gvk schema.GroupVersionKind) bool {
	_, served := e.catalog.Lookup(gvk)
	return served
}

// syncTimeout is how long the start waits for all watches; what needs one that is late waits by itself.
const syncTimeout = 30 * time.Second

// Warm waits until every watch is complete, or for half a minute: one that is refused must not stop what it does not
// concern. It is false when the context is done.
func (e *Engine) Warm(ctx context.Context) bool {
	limited, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if !e.informers.WaitForCacheSync(limited) && ctx.Err() == nil {
		e.Log.Error(e.unsynced(), "what needs the other watches starts now", "waited", syncTimeout.String())
	}
	return ctx.Err() == nil
}

// start waits for what reconciles need: the watches and, once the manager leads or holds a shard, the key of the digests. It is false when
// the context is done.
func (e *Engine) start(ctx context.Context) bool {
	return e.Warm(ctx) && e.Shards.AwaitFirst(ctx) && e.digests.Load(ctx)
}

// DigestKey waits for the key of the digests, for what makes digests outside of reconciles; false when the context is done before.
func (e *Engine) DigestKey(ctx context.Context) (key digest.Key, ok bool) {
	if !e.digests.Load(ctx) {
		return key, false
	}
	return e.digests.Key(), true
}

func (e *Engine) add(gk schema.GroupKind, r reconciler) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.controllers[gk] = r
}

func (e *Engine) controller(gk schema.GroupKind) (reconciler, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r, ok := e.controllers[gk]
	return r, ok
}

// reconcilers are those of all controllers.
func (e *Engine) reconcilers() []reconciler {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Values(e.controllers))
}

func (e *Engine) enqueue(gk schema.GroupKind, namespace, name string) {
	if r, ok := e.controller(gk); ok {
		r.enqueue(namespace, name)
	}
}

// watchSynced enqueues what may have waited for the watch on a kind. Without that on the custom resources nobody knows which of them are
// gone, so that neither Inventories are finalized nor objects of others are edited until it is complete.
func (e *Engine) watchSynced(gk schema.GroupKind) {
	e.enqueueUsersOf(gk)
	if r, ok := e.controller(gk); ok {
		r.enqueueWires("")
		e.enqueueFinalizations()
	}
}

// enqueueUsersOf enqueues every custom resource of the controllers that use a kind which became served or ceased to be.
func (e *Engine) enqueueUsersOf(gk schema.GroupKind) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.controllers {
		if r.serves(gk) {
			r.enqueueAll()
		}
	}
}

// finalized ends the watches for the finalization of a custom resource, which left no Inventory that names its kind.
func (e *Engine) finalized(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.controllers {
		r.finalized(uid)
	}
}
