package watch

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

const stackIndex = "stack"

// childIndexers find children by their stack.
var childIndexers = cache.Indexers{
	stackIndex: func(obj any) ([]string, error) {
		if o, ok := obj.(*observe.Object); ok {
			if hash := o.Labels[keeper.StackLabel]; hash != "" {
				return []string{hash}, nil
			}
		}
		return nil, nil
	},
}

// Children declares a watch on the objects of a kind that carry the label of a controller. Metadata alone is transferred,
// unless the health of the kind is in its status. notify is called with nil where there is no old or no new state, and
// hears of everything stored already; a second declaration for the same kind and controller adds its notify. When the API
// ceases to be served the store is dropped without notifications.
func (h *Hub) Children(gvk schema.GroupVersionKind, controller string, notify func(old, new *observe.Object)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	gk := gvk.GroupKind()
	if h.children[controller] == nil {
		h.children[controller] = map[schema.GroupKind]*feed{}
	}
	f := h.children[controller][gk]
	switch {
	case f == nil:
		f = h.childFeed(gvk, controller)
		// The overlay comes first, so that a notified reader finds it settled in most cases.
		f.handlers = append(f.handlers, h.settle(controller))
		h.children[controller][gk] = f
	case f.gvk != gvk && !h.servesLocked(f.gvk) && h.servesLocked(gvk):
		// An upgrade has removed the version that was watched.
		h.adjustLocked(f)
		handlers := f.handlers
		f = h.childFeed(gvk, controller)
		f.handlers = handlers
		h.children[controller][gk] = f
	}
	if notify != nil {
		h.addHandlerLocked(f, handler(asChild, notify))
	}
	h.adjustLocked(f)
}

// childFeed is the watch on a kind of children, with no callback yet.
func (h *Hub) childFeed(gvk schema.GroupVersionKind, controller string) *feed {
	return &feed{
		gvk: gvk, labelSelector: keeper.ControllerLabel + "=" + controller, whole: health.NeedsStatus(gvk.GroupKind()), typed: true,
		reduce: func(obj any) any { return reduceChild(gvk, obj) }, indexers: childIndexers,
		stopped: func() { h.overlay.dropKind(controller, gvk.GroupKind()) },
	}
}

func (h *Hub) servesLocked(gvk schema.GroupVersionKind) bool {
	_, served := h.opts.Catalog.Lookup(gvk)
	return served
}

// settle drops writes from the overlay that the cache has caught up with. Unlike notifications it counts every event.
func (h *Hub) settle(controller string) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if o, ok := obj.(*observe.Object); ok {
				h.overlay.saw(controller, o, false)
			}
		},
		UpdateFunc: func(_, obj any) {
			if o, ok := obj.(*observe.Object); ok {
				h.overlay.saw(controller, o, false)
			}
		},
		DeleteFunc: func(obj any) {
			if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = t.Obj
			}
			if o, ok := obj.(*observe.Object); ok {
				h.overlay.saw(controller, o, true)
			}
		},
	}
}

func asChild(obj any) (*observe.Object, metav1.Object) {
	o, ok := obj.(*observe.Object)
	if !ok {
		return nil, nil
	}
	return o, o
}

// reduceChild is the transform of the children's caches.
func reduceChild(gvk schema.GroupVersionKind, obj any) any {
	switch o := obj.(type) {
	case *observe.Object:
		return o
	case *unstructured.Unstructured:
		return observe.From(o, true)
	case *metav1.PartialObjectMetadata:
		return observe.FromMetadata(gvk, o)
	case metav1.Object:
		return observe.FromTyped(gvk, o)
	}
	return obj
}

// Child returns what is known of a child, the engine's own writes included.
func (h *Hub) Child(controller string, key plan.Key) (*observe.Object, bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	o := h.childLocked(controller, key)
	return o, o != nil
}

func (h *Hub) childLocked(controller string, key plan.Key) *observe.Object {
	f := h.children[controller][key.GroupKind]
	return h.overlay.lookup(controller, key, func() string { return f.reached(key.Namespace) }, func() *observe.Object {
		cached, _ := f.get(key.Namespace, key.Name).(*observe.Object)
		return cached
	})
}

// reached is the resource version up to which the store has seen a namespace, or empty.
func (f *feed) reached(namespace string) string {
	if f == nil || f.run == nil {
		return ""
	}
	inf := f.run.informer(namespace)
	if inf == nil || !inf.HasSynced() {
		return ""
	}
	return inf.GetStore().LastStoreSyncResourceVersion()
}

// ChildrenOfStack returns the children that carry the label of a stack, in no order.
func (h *Hub) ChildrenOfStack(controller, stackHash string) []*observe.Object {
	h.mu.RLock()
	defer h.mu.RUnlock()
	// What was written counts in place of what is stored, whichever of the two matches.
	var out []*observe.Object
	var overridden map[plan.Key]bool
	h.overlay.each(controller, func(key plan.Key, w written) {
		f := h.children[controller][key.GroupKind]
		// In this order, as lookup has it.
		reached := f.reached(key.Namespace)
		cached, _ := f.get(key.Namespace, key.Name).(*observe.Object)
		if overridden == nil {
			overridden = map[plan.Key]bool{}
		}
		overridden[key] = true
		if o := w.view(cached, reached); o != nil && o.Labels[keeper.StackLabel] == stackHash {
			out = append(out, o)
		}
	})
	for _, f := range h.children[controller] {
		f.byIndex(stackIndex, stackHash, func(obj any) {
			if o, ok := obj.(*observe.Object); ok && !overridden[o.Key] {
				out = append(out, o)
			}
		})
	}
	return out
}

// ChildSynced says whether everything that exists of a declared kind is known. It is true while the API is not served,
// and false for what was never declared.
func (h *Hub) ChildSynced(gk schema.GroupKind, controller string) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.syncedLocked(h.children[controller][gk])
}

// ChildFailure says why the watch on a declared kind cannot be opened; nil where it is complete, or was not tried yet.
func (h *Hub) ChildFailure(gk schema.GroupKind, controller string) error {
	h.mu.RLock()
	defer h.mu.RUnlock()
	f := h.children[controller][gk]
	if f == nil || f.run == nil || h.syncedLocked(f) {
		return nil
	}
	return f.run.failure()
}

// Wrote records what a create or an apply answered, which counts until the cache has caught up.
func (h *Hub) Wrote(controller string, o *observe.Object) {
	h.record(controller, o.Key, written{object: o, uid: o.UID, rv: o.ResourceVersion})
}

// record takes the locks in the order in which every method takes them: the hub's, then the overlay's.
func (h *Hub) record(controller string, key plan.Key, w written) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	f := h.children[controller][key.GroupKind]
	h.overlay.put(controller, key, w, func() (*observe.Object, string) {
		cached, _ := f.get(key.Namespace, key.Name).(*observe.Object)
		return cached, f.reached(key.Namespace)
	})
}
