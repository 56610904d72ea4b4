package watch

import (
	"context"
	"errors"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/mutation"
	"mlkeeper.dev/internal/engine/watch/source"
)

// Options configures a Manager.
type Options struct {
	Metadata metadata.Interface
	Dynamic  dynamic.Interface
	// Builtin reads built-in kinds as protobuf; nil reads them as JSON.
	Builtin *source.Builtin
	Catalog *catalog.Catalog
	// Namespaces restricts the watches on namespaced kinds; empty means all namespaces.
	Namespaces []string
	Log        logr.Logger
	// Clock defaults to the real clock.
	Clock clock.WithTicker
	// OnForbidden is called when a declared watch becomes forbidden; it may be nil. It must not block.
	OnForbidden func(gk schema.GroupKind, err error)
	// OnSynced is called whenever a started watch has synced; it may be nil. It must not block.
	OnSynced func(gk schema.GroupKind)
}

// Manager owns the informers. Watches may be declared before and after Start.
type Manager struct {
	opts  Options
	clock clock.WithTicker
	refs  *references

	mu sync.RWMutex
	// ctx is set while the manager runs.
	ctx       context.Context
	children  map[string]map[schema.GroupKind]*informer
	resources map[schema.GroupKind]*informer
	targets   map[string]*informer

	wg sync.WaitGroup
}

// New returns a manager without watches.
func New(opts Options) *Manager {
	m := &Manager{
		opts: opts, clock: opts.Clock,
		children:  map[string]map[schema.GroupKind]*informer{},
		resources: map[schema.GroupKind]*informer{},
		targets:   map[string]*informer{},
	}
	if m.clock == nil {
		m.clock = source.RealClock
	}
	m.refs = newReferences(m)
	opts.Catalog.OnChange(m.servedChanged)
	return m
}

// Start runs the watches until ctx is done, and returns when all of them have stopped.
func (m *Manager) Start(ctx context.Context) error {
	m.mu.Lock()
	m.ctx = ctx
	for _, inf := range m.informersLocked() {
		m.startOrStopLocked(m.inServedVersionLocked(inf))
	}
	m.mu.Unlock()
	m.refs.start(ctx)
	m.expireUntil(ctx)
	// The lock waits for a declaration that has checked ctx and is about to start a watch.
	m.mu.Lock()
	m.ctx = nil
	m.mu.Unlock()
	m.refs.stop()
	m.wg.Wait()
	return nil
}

// expireEvery is how often the writes are dropped that no watch has observed in time.
const expireEvery = mutation.TTL / 10

// expireUntil drops expired writes and deletions from the informers until ctx is done.
func (m *Manager) expireUntil(ctx context.Context) {
	ticker := m.clock.NewTicker(expireEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		m.mu.RLock()
		for _, inf := range m.informersLocked() {
			inf.mutations.Expire()
		}
		m.mu.RUnlock()
	}
}

// WaitForCacheSync waits until HasSynced is true. It returns false if ctx is done before that.
func (m *Manager) WaitForCacheSync(ctx context.Context) bool {
	return cache.WaitForCacheSync(ctx.Done(), func() bool {
		return m.HasSynced()
	})
}

// HasSynced reports whether the manager runs and every declared watch whose API is served has synced, but for those on kinds that users
// chose, such as one whose conversion webhook is down. It is false before Start: the catalog is empty then, so no API counts as served.
func (m *Manager) HasSynced() bool {
	missing, running := m.Unsynced()
	return running && len(missing) == 0
}

// Unsynced returns the kinds without which HasSynced is false, each with the error of a watch that is forbidden, or nil. running says
// that the manager runs.
func (m *Manager) Unsynced() (missing map[schema.GroupKind]error, running bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.ctx == nil {
		return nil, false
	}
	missing = map[schema.GroupKind]error{}
	for _, inf := range m.informersLocked() {
		if inf.chosen || m.hasSyncedLocked(inf) {
			continue
		}
		var forbidden error
		if inf.running != nil {
			forbidden = inf.running.forbidden()
		}
		gk := inf.gvk.GroupKind()
		missing[gk] = errors.Join(missing[gk], forbidden)
	}
	return missing, true
}

// informersLocked returns every declared informer. The watches on referenced objects are separate: references owns them.
func (m *Manager) informersLocked() []*informer {
	var out []*informer
	for _, controller := range m.children {
		for _, inf := range controller {
			out = append(out, inf)
		}
	}
	for _, inf := range m.resources {
		out = append(out, inf)
	}
	for _, inf := range m.targets {
		out = append(out, inf)
	}
	return out
}

// servedChanged starts or stops the watches on a kind, or moves them to another version. It ignores its second argument and asks the catalog for the current
// state, which may be newer than this call.
func (m *Manager) servedChanged(gk schema.GroupKind, _ bool) {
	m.mu.Lock()
	for _, inf := range m.informersLocked() {
		if inf.gvk.GroupKind() == gk {
			m.startOrStopLocked(m.inServedVersionLocked(inf))
		}
	}
	m.mu.Unlock()
	m.refs.servedChanged(gk)
}
