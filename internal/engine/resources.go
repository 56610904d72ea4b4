package engine

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/watch"
)

// Resources are the custom resources of one kind as the engine's own watch knows them, for what works beside the loop: a second
// watch would have the API server send everything twice.
type Resources[C client.Object] struct {
	informers *watch.Manager
	gvk       schema.GroupVersionKind
}

// ResourcesOf returns those of a controller that is registered already.
func ResourcesOf[C client.Object](e *Engine, def controller.Definition[C]) Resources[C] {
	return Resources[C]{informers: e.informers, gvk: def.GVK}
}

// Get returns one that exists and decodes. It is shared and must not be changed.
func (r Resources[C]) Get(namespace, name string) (cr C, found bool) {
	o, _ := r.informers.Resource(r.gvk.GroupKind(), namespace, name)
	cr, found = o.(C)
	return cr, found
}

// Follow has a function called for each that exists and with every change; was is nil for what is new, is for what is gone or
// ceases to decode. It must not block, nor change what it is given.
func (r Resources[C]) Follow(changed func(was, is C)) {
	r.informers.WatchResources(r.gvk, nil, func(before, after metav1.Object, _ bool) {
		was, existed := before.(C)
		is, exists := after.(C)
		if existed || exists {
			changed(was, is)
		}
	}, nil)
}
