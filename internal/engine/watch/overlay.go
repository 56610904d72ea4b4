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

// overlayLife is how long a write may override a cache. It is a safety net: a cache that has not caught up by then is
// broken, or the object left its selector.
const overlayLife = 10 * time.Minute

// written is the outcome of one of the engine's own writes.
type written struct {
	// object is what the write answered.
	object *observe.Object
	uid    types.UID
	rv     string
	// seenUID and seenRV are what the cache had at the time, for versions that do not compare.
	seenUID types.UID
	seenRV  string
	at      time.Time
}

// overlay holds the engine's own writes that a cache has not seen yet (law 12).
type overlay struct {
	clock clock.PassiveClock
	// count lets lookups skip the lock in the steady state, in which there is nothing to override.
	count atomic.Int64

	mu          sync.RWMutex
	controllers map[string]map[plan.Key]written
}

func newOverlay(c clock.PassiveClock) *overlay {
	return &overlay{clock: c, controllers: map[string]map[plan.Key]written{}}
}

// newer compares resource versions of one resource type; ok is false if they do not compare (KEP-5504).
func newer(a, b string) (newer, ok bool) {
	n, err := resourceversion.CompareResourceVersion(a, b)
	return n > 0, err == nil
}

// caughtUp says whether a cache that holds cached (nil for nothing) and has seen everything up to version upTo (empty
// if unknown) knows the write.
func (w written) caughtUp(cached *observe.Object, upTo string) bool {
	if cached == nil {
		// The object is missing because it is not there yet, or not any more: only the version that the cache has
		// reached tells.
		behind, ok := newer(w.rv, upTo)
		return ok && !behind
	}
	if behind, ok := newer(w.rv, cached.ResourceVersion); ok {
		return !behind
	}
	return cached.UID != w.seenUID || cached.ResourceVersion != w.seenRV
}

// view returns what a reader should see instead of cached.
func (w written) view(cached *observe.Object, upTo string) *observe.Object {
	if w.caughtUp(cached, upTo) {
		return cached
	}
	return w.object
}

// lookup returns what a reader should see: what the cache has, or what was written. An event may come at any moment, so the
// order of the reads counts: a write that is settled already is in the cache that is read after it, and an object that the
// cache lacks after it had reached a version is gone by that version.
func (o *overlay) lookup(controller string, key plan.Key, upTo func() string, cached func() *observe.Object) *observe.Object {
	w, ok := o.find(controller, key)
	if !ok {
		return cached()
	}
	reached := upTo()
	return w.view(cached(), reached)
}

// find returns a write that still counts.
func (o *overlay) find(controller string, key plan.Key) (written, bool) {
	if o.count.Load() == 0 {
		return written{}, false
	}
	o.mu.RLock()
	defer o.mu.RUnlock()
	w, ok := o.controllers[controller][key]
	return w, ok && o.clock.Since(w.at) <= overlayLife
}

// each calls f for every write of a controller that still counts.
func (o *overlay) each(controller string, f func(plan.Key, written)) {
	if o.count.Load() == 0 {
		return
	}
	o.mu.RLock()
	defer o.mu.RUnlock()
	for key, w := range o.controllers[controller] {
		if o.clock.Since(w.at) <= overlayLife {
			f(key, w)
		}
	}
}

// put records a write, unless the cache or a later write has overtaken it. cached is read under the lock, so that an
// event cannot slip between reading it and recording the write.
func (o *overlay) put(controller string, key plan.Key, w written, cached func() (*observe.Object, string)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	w.at = o.clock.Now()
	o.sweepLocked()
	if prev, ok := o.controllers[controller][key]; ok && prev.outlives(w) {
		return
	}
	c, upTo := cached()
	if c != nil {
		w.seenUID, w.seenRV = c.UID, c.ResourceVersion
	}
	if _, ok := newer(w.rv, w.seenRV); c != nil && !ok && w.rv == w.seenRV && w.uid == w.seenUID {
		o.deleteLocked(controller, key)
		return
	}
	// Where versions do not compare, what the cache has now never counts as caught up.
	if w.caughtUp(c, upTo) {
		o.deleteLocked(controller, key)
		return
	}
	if o.controllers[controller] == nil {
		o.controllers[controller] = map[plan.Key]written{}
	}
	if _, ok := o.controllers[controller][key]; !ok {
		o.count.Add(1)
	}
	o.controllers[controller][key] = w
}

// outlives says that a recorded write stays although next is reported after it: answers may arrive out of order.
func (w written) outlives(next written) bool {
	later, ok := newer(w.rv, next.rv)
	return ok && later
}

// saw drops a write that the cache has caught up with. gone tells that the cache dropped the object it was given.
func (o *overlay) saw(controller string, cached *observe.Object, gone bool) {
	if o.count.Load() == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	w, ok := o.controllers[controller][cached.Key]
	if !ok {
		return
	}
	if gone {
		// The end of this very object settles every write to it; that of an earlier one says nothing.
		if cached.UID == w.uid {
			o.deleteLocked(controller, cached.Key)
		}
		return
	}
	if w.caughtUp(cached, "") {
		o.deleteLocked(controller, cached.Key)
	}
}

// dropKind forgets the writes to a kind whose API is no longer served.
func (o *overlay) dropKind(controller string, gk schema.GroupKind) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key := range o.controllers[controller] {
		if key.GroupKind == gk {
			o.deleteLocked(controller, key)
		}
	}
}

func (o *overlay) deleteLocked(controller string, key plan.Key) {
	if _, ok := o.controllers[controller][key]; ok {
		delete(o.controllers[controller], key)
		o.count.Add(-1)
	}
}

func (o *overlay) sweepLocked() {
	for controller, writes := range o.controllers {
		for key, w := range writes {
			if o.clock.Since(w.at) > overlayLife {
				o.deleteLocked(controller, key)
			}
		}
	}
}
