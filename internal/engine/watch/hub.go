package watch

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/watch/source"
)

// Options is what a hub needs.
type Options struct {
	Metadata metadata.Interface
	Dynamic  dynamic.Interface
	// Builtin, when set, reads built-in kinds as protobuf.
	Builtin *source.Builtin
	Catalog *catalog.Catalog
	// Namespaces restricts the watches of namespaced kinds; empty means all namespaces.
	Namespaces []string
	Log        logr.Logger
	// Clock is the real one when nil.
	Clock clock.WithTicker
	// OnSynced, when set, is called whenever a declared watch that was started has everything that exists. It must not
	// block.
	OnSynced func(gk schema.GroupKind)
}

// Hub owns the watches. Declarations may come before or after Start.
type Hub struct {
	opts Options
	// clock is Options.Clock or the real one.
	clock   clock.WithTicker
	overlay *overlay
	refs    *references

	mu sync.RWMutex
	// ctx is set while the hub runs.
	ctx       context.Context
	children  map[string]map[schema.GroupKind]*feed
	resources map[schema.GroupKind]*feed
	targets   map[string]*feed

	wg sync.WaitGroup
}

// New returns a hub without watches.
func New(opts Options) *Hub {
	h := &Hub{
		opts: opts, clock: opts.Clock,
		children:  map[string]map[schema.GroupKind]*feed{},
		resources: map[schema.GroupKind]*feed{},
		targets:   map[string]*feed{},
	}
	if h.clock == nil {
		h.clock = source.RealClock
	}
	h.overlay = newOverlay(h.clock)
	h.refs = newReferences(h)
	opts.Catalog.OnChange(h.servedChanged)
	return h
}

// Start runs the watches until ctx is done, and returns when all have ended.
func (h *Hub) Start(ctx context.Context) error {
	h.mu.Lock()
	h.ctx = ctx
	for _, f := range h.feedsLocked() {
		h.adjustLocked(f)
	}
	h.mu.Unlock()
	h.refs.start(ctx)
	<-ctx.Done()
	// Taking the lock once makes sure that no declaration is between seeing the context alive and starting a watch.
	h.mu.Lock()
	h.ctx = nil
	h.mu.Unlock()
	h.refs.stop()
	h.wg.Wait()
	return nil
}

// WaitForSync waits until every declared watch whose API is served is synced, and returns false if ctx is done before.
func (h *Hub) WaitForSync(ctx context.Context) bool {
	return cache.WaitForCacheSync(ctx.Done(), func() bool {
		return h.Synced()
	})
}

// Synced says whether the hub runs and every declared watch whose API is served is complete. Before it runs nothing is,
// although the catalog, which is still empty then, calls no API served.
func (h *Hub) Synced() bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.ctx == nil {
		return false
	}
	for _, f := range h.feedsLocked() {
		if !h.syncedLocked(f) {
			return false
		}
	}
	return true
}

// feedsLocked returns every declared watch; references are not declared but come and go.
func (h *Hub) feedsLocked() []*feed {
	var out []*feed
	for _, controller := range h.children {
		for _, f := range controller {
			out = append(out, f)
		}
	}
	for _, f := range h.resources {
		out = append(out, f)
	}
	for _, f := range h.targets {
		out = append(out, f)
	}
	return out
}

// servedChanged starts and stops the watches of a kind. What the catalog says now counts, not what it said when it
// called.
func (h *Hub) servedChanged(gk schema.GroupKind, _ bool) {
	h.mu.Lock()
	for _, f := range h.feedsLocked() {
		if f.gvk.GroupKind() == gk {
			h.adjustLocked(f)
		}
	}
	h.mu.Unlock()
	h.refs.servedChanged(gk)
}
