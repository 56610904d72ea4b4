package watch

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"

	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

// mutationTTL is how long a write may override a cache. It is a safety net: if the cache has not observed the write by then,
// either its watch is broken or the object no longer matches the selector.
const mutationTTL = 10 * time.Minute

// mutation is the result of one of the engine's own writes.
type mutation struct {
	// object is the response of the write.
	object *observe.Object
	uid    types.UID
	rv     string
	// cachedUID and cachedRV describe the cached object at the time of the write. They are used for resource versions that
	// cannot be compared.
	cachedUID types.UID
	cachedRV  string
	at        time.Time
}

// mutationCache holds the engine's own writes that the informers' caches have not observed yet (invariant 12).
type mutationCache struct {
	clock clock.PassiveClock
	// count is the number of writes. It lets lookups skip the lock in the steady state, where there are none.
	count atomic.Int64

	mu           sync.RWMutex
	byController map[string]map[plan.Key]mutation
}

func newMutationCache(c clock.PassiveClock) *mutationCache {
	return &mutationCache{clock: c, byController: map[string]map[plan.Key]mutation{}}
}

// newer reports whether resource version a is newer than b; ok is false if they cannot be compared (KEP-5504).
func newer(a, b string) (newer, ok bool) {
	n, err := resourceversion.CompareResourceVersion(a, b)
	return n > 0, err == nil
}

// observedBy reports whether a cache has observed the write. cached is the cached object or nil, and lastSync the resource
// version that the cache has synced to, empty if unknown.
func (w mutation) observedBy(cached *observe.Object, lastSync string) bool {
	if cached == nil {
		// The object has either not reached the cache yet or was deleted since. Only the version of the last sync
		// distinguishes the two.
		behind, ok := newer(w.rv, lastSync)
		return ok && !behind
	}
	if behind, ok := newer(w.rv, cached.ResourceVersion); ok {
		return !behind
	}
	return cached.UID != w.cachedUID || cached.ResourceVersion != w.cachedRV
}

// view returns the newer one of the cached and the written object.
func (w mutation) view(cached *observe.Object, lastSync string) *observe.Object {
	if w.observedBy(cached, lastSync) {
		return cached
	}
	return w.object
}

// lookup returns the newer one of the cached and the written object. An event may arrive between any two reads, so their order
// matters. A write that was dropped as observed is in the cache, which is read after it. An object that is missing from the
// cache, which is read after the version of the last sync, was deleted by that version.
func (mc *mutationCache) lookup(controller string, key plan.Key, lastSyncResourceVersion func() string, cached func() *observe.Object) *observe.Object {
	w, ok := mc.find(controller, key)
	if !ok {
		return cached()
	}
	lastSync := lastSyncResourceVersion()
	return w.view(cached(), lastSync)
}

// find returns a write that has not expired.
func (mc *mutationCache) find(controller string, key plan.Key) (mutation, bool) {
	if mc.count.Load() == 0 {
		return mutation{}, false
	}
	mc.mu.RLock()
	defer mc.mu.RUnlock()
	w, ok := mc.byController[controller][key]
	return w, ok && mc.clock.Since(w.at) <= mutationTTL
}

// each calls f for every write of a controller that has not expired.
func (mc *mutationCache) each(controller string, f func(plan.Key, mutation)) {
	if mc.count.Load() == 0 {
		return
	}
	mc.mu.RLock()
	defer mc.mu.RUnlock()
	for key, w := range mc.byController[controller] {
		if mc.clock.Since(w.at) <= mutationTTL {
			f(key, w)
		}
	}
}

// put records a write, unless the cache or a later write is newer. The cached object is read under the lock, so that no event
// can arrive between that read and the recording of the write.
func (mc *mutationCache) put(controller string, key plan.Key, w mutation, cached func() (*observe.Object, string)) {
	mc.mu.Lock()
	defer mc.mu.Unlock()
	w.at = mc.clock.Now()
	mc.expireLocked()
	if prev, ok := mc.byController[controller][key]; ok && prev.supersedes(w) {
		return
	}
	c, lastSync := cached()
	if c != nil {
		w.cachedUID, w.cachedRV = c.UID, c.ResourceVersion
	}
	if _, ok := newer(w.rv, w.cachedRV); c != nil && !ok && w.rv == w.cachedRV && w.uid == w.cachedUID {
		mc.deleteLocked(controller, key)
		return
	}
	// Where versions cannot be compared, the object that is cached now does not count as having observed the write.
	if w.observedBy(c, lastSync) {
		mc.deleteLocked(controller, key)
		return
	}
	if mc.byController[controller] == nil {
		mc.byController[controller] = map[plan.Key]mutation{}
	}
	if _, ok := mc.byController[controller][key]; !ok {
		mc.count.Add(1)
	}
	mc.byController[controller][key] = w
}

// supersedes reports whether a recorded write is newer than next, which was reported later: responses may arrive out of order.
func (w mutation) supersedes(next mutation) bool {
	later, ok := newer(w.rv, next.rv)
	return ok && later
}

// observe drops a write that the cache has observed. deleted says that the event deletes the cached object.
func (mc *mutationCache) observe(controller string, cached *observe.Object, deleted bool) {
	if mc.count.Load() == 0 {
		return
	}
	mc.mu.Lock()
	defer mc.mu.Unlock()
	w, ok := mc.byController[controller][cached.Key]
	if !ok {
		return
	}
	if deleted {
		// The deletion of this object supersedes every write to it. The deletion of an earlier object of the same name
		// does not.
		if cached.UID == w.uid {
			mc.deleteLocked(controller, cached.Key)
		}
		return
	}
	if w.observedBy(cached, "") {
		mc.deleteLocked(controller, cached.Key)
	}
}

// removeKind drops the writes to a kind whose API is no longer served.
func (mc *mutationCache) removeKind(controller string, gk schema.GroupKind) {
	mc.mu.Lock()
	defer mc.mu.Unlock()
	for key := range mc.byController[controller] {
		if key.GroupKind == gk {
			mc.deleteLocked(controller, key)
		}
	}
}

func (mc *mutationCache) deleteLocked(controller string, key plan.Key) {
	if _, ok := mc.byController[controller][key]; ok {
		delete(mc.byController[controller], key)
		mc.count.Add(-1)
	}
}

func (mc *mutationCache) expireLocked() {
	for controller, writes := range mc.byController {
		for key, w := range writes {
			if mc.clock.Since(w.at) > mutationTTL {
				mc.deleteLocked(controller, key)
			}
		}
	}
}
