// Package mutation lets a reconciler read its own writes (invariant 12): the answer of a write overrides an older object in the store of
// an informer, as in the MutationCache of client-go. In addition, it compares versions with that of the store, so that an object
// that was deleted since its write does not appear to exist, and it knows deletions.
package mutation

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"

	"mlkeeper.dev/internal/engine/observe"
)

// TTL is how long a write may override a store. It is a safety net: if the store has not observed the write by then, either its
// watch is broken or the object no longer matches the selector.
const TTL = 10 * time.Minute

// Store is the store of an informer.
type Store interface {
	// Get returns a stored object, or nil.
	Get(key types.NamespacedName) metav1.Object
	// LastSyncResourceVersion returns the resource version that the store has synced a namespace to; empty if unknown.
	LastSyncResourceVersion(namespace string) string
}

// Cache holds the writes that a store has not observed yet.
type Cache struct {
	clock clock.PassiveClock
	store Store

	mu        sync.RWMutex
	writes    map[types.NamespacedName]write
	deletions map[types.NamespacedName]deletion
}

// write is the answer of a create, an update or a patch.
type write struct {
	object metav1.Object
	// storedUID and storedVersion describe the stored object at the time of the write. They are used for resource versions that
	// cannot be compared.
	storedUID     types.UID
	storedVersion string
	at            time.Time
}

// deletion is a deletion that the API server has acknowledged.
type deletion struct {
	uid types.UID
	at  time.Time
}

// New returns an empty cache of writes over a store.
func New(c clock.PassiveClock, store Store) *Cache {
	return &Cache{
		clock: c, store: store,
		writes: map[types.NamespacedName]write{}, deletions: map[types.NamespacedName]deletion{},
	}
}

// Get returns the newer one of the stored and the written object, or nil. The order of the reads matters, because an event may
// arrive between any two of them. A write that was dropped as observed is in the store, which is read after it. An object that is
// missing from the store, which is read after its version, was deleted by that version.
func (c *Cache) Get(key types.NamespacedName) metav1.Object {
	c.mu.RLock()
	w, ok := c.writes[key]
	c.mu.RUnlock()
	if !ok || c.expired(w.at) {
		return c.store.Get(key)
	}
	version := c.store.LastSyncResourceVersion(key.Namespace)
	stored := c.store.Get(key)
	if w.observedBy(stored, version) {
		return stored
	}
	return w.object
}

// Overrides returns what Get returns for every object with a write that the store has not observed.
func (c *Cache) Overrides() map[types.NamespacedName]metav1.Object {
	c.mu.RLock()
	out := make(map[types.NamespacedName]metav1.Object, len(c.writes))
	for key := range c.writes {
		out[key] = nil
	}
	c.mu.RUnlock()
	for key := range out {
		out[key] = c.Get(key)
	}
	return out
}

// Updated records the answer of a write, unless the store or a later write is newer. The store is read under the lock: an event
// that arrives after that read finds the write.
func (c *Cache) Updated(object metav1.Object) {
	key := keyOf(object)
	c.mu.Lock()
	defer c.mu.Unlock()
	if d, ok := c.deletions[key]; ok && d.uid != object.GetUID() {
		delete(c.deletions, key)
	}
	if before, ok := c.writes[key]; ok && observe.NewerVersion(before.object.GetResourceVersion(), object.GetResourceVersion()) {
		return // The answers have arrived out of order.
	}
	version := c.store.LastSyncResourceVersion(key.Namespace)
	stored := c.store.Get(key)
	w := write{object: object, at: c.clock.Now()}
	if stored != nil {
		w.storedUID, w.storedVersion = stored.GetUID(), stored.GetResourceVersion()
	}
	// An object that is stored already counts as observed, also where versions cannot be compared.
	same := stored != nil && w.storedUID == object.GetUID() && w.storedVersion == object.GetResourceVersion()
	if same || w.observedBy(stored, version) {
		delete(c.writes, key)
		return
	}
	c.writes[key] = w
}

// Deleted records that the API server has acknowledged the deletion of an object, which may still exist, for instance because of
// a finalizer.
func (c *Cache) Deleted(key types.NamespacedName, uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deletions[key] = deletion{uid: uid, at: c.clock.Now()}
}

// WasDeleted reports whether the deletion of an object was acknowledged, whether or not the store has observed it.
func (c *Cache) WasDeleted(key types.NamespacedName, uid types.UID) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	d, ok := c.deletions[key]
	return ok && d.uid == uid && !c.expired(d.at)
}

// OnUpdate drops a write that the store has observed with the event of an added or updated object.
func (c *Cache) OnUpdate(object metav1.Object) {
	key := keyOf(object)
	c.mu.Lock()
	defer c.mu.Unlock()
	if w, ok := c.writes[key]; ok && w.observedBy(object, "") {
		delete(c.writes, key)
	}
}

// OnDelete drops a write to an object that was deleted. The deletion of an earlier object of the same name does not affect it.
func (c *Cache) OnDelete(object metav1.Object) {
	key := keyOf(object)
	c.mu.Lock()
	defer c.mu.Unlock()
	if w, ok := c.writes[key]; ok && w.object.GetUID() == object.GetUID() {
		delete(c.writes, key)
	}
}

// Clear drops everything, for a watch that has ended.
func (c *Cache) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.writes)
	clear(c.deletions)
}

// observedBy reports whether a store has observed the write. stored is the stored object or nil, and version the one that the
// store has synced to, empty if unknown.
func (w write) observedBy(stored metav1.Object, version string) bool {
	if stored == nil {
		// The object has either not reached the store yet or was deleted since. Only the version of the store distinguishes
		// the two.
		order, err := resourceversion.CompareResourceVersion(w.object.GetResourceVersion(), version)
		return err == nil && order <= 0
	}
	order, err := resourceversion.CompareResourceVersion(w.object.GetResourceVersion(), stored.GetResourceVersion())
	if err != nil {
		return stored.GetUID() != w.storedUID || stored.GetResourceVersion() != w.storedVersion
	}
	return order <= 0
}

func (c *Cache) expired(at time.Time) bool { return c.clock.Since(at) > TTL }

// Expire drops what is expired, which readers do not rely on. It is called from time to time: with the last deletion of a large stack there
// are thousands, and no later write need follow.
func (c *Cache) Expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, w := range c.writes {
		if c.expired(w.at) {
			delete(c.writes, key)
		}
	}
	for key, d := range c.deletions {
		if c.expired(d.at) {
			delete(c.deletions, key)
		}
	}
}

func keyOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}
