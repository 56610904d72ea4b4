package watch

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/watch/source"
)

// feed is one declared watch.
type feed struct {
	gvk                          schema.GroupVersionKind
	labelSelector, fieldSelector string
	// whole watches whole objects; otherwise metadata alone is transferred.
	whole bool
	// typed says that reduce takes the types of built-in kinds too.
	typed bool
	// reduce turns what was read into what is stored. It must not fail, and must let pass what is already reduced.
	reduce   func(obj any) any
	indexers cache.Indexers
	handlers []cache.ResourceEventHandler
	// stopped is called after the watch ended because its API is no longer served; it may be nil.
	stopped func()
	// run is nil while the API is not served.
	run *run
}

// run is the life of a feed while its API is served.
type run struct {
	mapping catalog.Mapping
	// informers are keyed by namespace; the key is empty for the one that watches all.
	informers map[string]cache.SharedIndexInformer
	// patience is that of each informer.
	patience []*source.Backoff
	cancel   context.CancelFunc
}

// failure is what keeps the watch from being complete.
func (r *run) failure() error {
	for _, p := range r.patience {
		if err := p.LastError(); err != nil {
			return err
		}
	}
	return nil
}

// informer returns the informer that watches a namespace, or nil.
func (r *run) informer(namespace string) cache.SharedIndexInformer {
	if inf, ok := r.informers[""]; ok {
		return inf
	}
	return r.informers[namespace]
}

// get returns a stored object, or nil.
func (f *feed) get(namespace, name string) any {
	if f == nil || f.run == nil {
		return nil
	}
	inf := f.run.informer(namespace)
	if inf == nil {
		return nil
	}
	key := name
	if namespace != "" {
		key = namespace + "/" + name
	}
	obj, _, _ := inf.GetIndexer().GetByKey(key)
	return obj
}

// byIndex calls each for every stored object with a value in an index.
func (f *feed) byIndex(index, value string, each func(any)) {
	if f == nil || f.run == nil {
		return
	}
	for _, inf := range f.run.informers {
		objs, err := inf.GetIndexer().ByIndex(index, value)
		if err != nil {
			continue
		}
		for _, o := range objs {
			each(o)
		}
	}
}

// inNamespace calls each for every stored object of a namespace, or of all.
func (f *feed) inNamespace(namespace string, each func(any)) {
	if f == nil || f.run == nil {
		return
	}
	if namespace != "" {
		f.byIndex(cache.NamespaceIndex, namespace, each)
		return
	}
	for _, inf := range f.run.informers {
		for _, o := range inf.GetIndexer().List() {
			each(o)
		}
	}
}

// syncedLocked says whether everything that exists is stored. Of an API that is not served nothing exists.
func (h *Hub) syncedLocked(f *feed) bool {
	if f == nil {
		return false
	}
	if f.run == nil {
		_, served := h.opts.Catalog.Lookup(f.gvk)
		return !served
	}
	for _, inf := range f.run.informers {
		if !inf.HasSynced() {
			return false
		}
	}
	return true
}

// addHandlerLocked adds a callback to a feed, which hears of everything stored already.
func (h *Hub) addHandlerLocked(f *feed, handler cache.ResourceEventHandler) {
	f.handlers = append(f.handlers, handler)
	if f.run == nil {
		return
	}
	for _, inf := range f.run.informers {
		if _, err := inf.AddEventHandler(handler); err != nil {
			h.opts.Log.Error(err, "cannot add a callback to a watch", "kind", f.gvk.String())
		}
	}
}

// adjustLocked starts, stops or restarts a watch as the catalog demands.
func (h *Hub) adjustLocked(f *feed) {
	if h.ctx == nil || h.ctx.Err() != nil {
		return
	}
	mapping, served := h.opts.Catalog.Lookup(f.gvk)
	if f.run != nil && (!served || f.run.mapping != mapping) {
		f.run.cancel()
		f.run = nil
		if f.stopped != nil {
			f.stopped()
		}
	}
	if f.run != nil || !served {
		return
	}
	namespaces := h.opts.Namespaces
	if len(namespaces) == 0 || !mapping.Namespaced {
		namespaces = []string{metav1.NamespaceAll}
	}
	ctx, cancel := context.WithCancel(h.ctx)
	f.run = &run{mapping: mapping, informers: make(map[string]cache.SharedIndexInformer, len(namespaces)), cancel: cancel}
	for _, namespace := range namespaces {
		inf, err := h.newInformer(f, mapping, namespace)
		if err != nil {
			h.opts.Log.Error(err, "cannot watch", "kind", f.gvk.String())
			continue
		}
		f.run.informers[namespace] = inf
		h.wg.Go(func() { inf.RunWithContext(source.Context(ctx, h.opts.Log)) })
	}
	if h.opts.OnSynced == nil {
		return
	}
	var synced []cache.InformerSynced
	for _, inf := range f.run.informers {
		synced = append(synced, inf.HasSynced)
	}
	h.wg.Go(func() {
		// An API that has no objects yet brings no event that would wake those who wait for its watch.
		if cache.WaitForCacheSync(ctx.Done(), synced...) {
			h.opts.OnSynced(f.gvk.GroupKind())
		}
	})
}

func (h *Hub) newInformer(f *feed, mapping catalog.Mapping, namespace string) (cache.SharedIndexInformer, error) {
	log := h.opts.Log.WithValues("resource", mapping.Resource.String(), "namespace", namespace,
		"labels", f.labelSelector, "fields", f.fieldSelector)
	patience := source.NewBackoff(h.clock, log)
	f.run.patience = append(f.run.patience, patience)
	scope := source.Scope{
		Resource: mapping.Resource, Namespace: namespace,
		LabelSelector: f.labelSelector, FieldSelector: f.fieldSelector,
	}
	lw, example, err := h.source(f, scope, patience)
	if err != nil {
		return nil, err
	}
	inf := cache.NewSharedIndexInformerWithOptions(lw, example, cache.SharedIndexInformerOptions{
		Indexers: f.indexers, ObjectDescription: mapping.Resource.String(),
	})
	err = inf.SetTransform(func(obj any) (any, error) { return f.reduce(obj), nil })
	if err != nil {
		return nil, fmt.Errorf("set transform: %w", err)
	}
	err = inf.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		h.watchFailed(f.gvk, patience, err)
	})
	if err != nil {
		return nil, fmt.Errorf("set error handler: %w", err)
	}
	for _, handler := range f.handlers {
		if _, err := inf.AddEventHandler(handler); err != nil {
			return nil, fmt.Errorf("add callback: %w", err)
		}
	}
	return inf, nil
}

// source chooses how a feed is read: metadata alone, else as protobuf where the kind is built in and the feed takes types.
func (h *Hub) source(f *feed, scope source.Scope, patience *source.Backoff) (cache.ListerWatcher, runtime.Object, error) {
	switch {
	case !f.whole:
		return source.Metadata(h.opts.Metadata, scope, patience), &metav1.PartialObjectMetadata{}, nil
	case f.typed && h.opts.Builtin.Recognizes(f.gvk):
		example, err := h.opts.Builtin.New(f.gvk)
		if err != nil {
			return nil, nil, err
		}
		lw, err := source.Typed(h.opts.Builtin, f.gvk, scope, patience)
		return lw, example, err
	}
	return source.Dynamic(h.opts.Dynamic, scope, patience), &unstructured.Unstructured{}, nil
}

// watchFailed counts and reports the end of a watch.
func (h *Hub) watchFailed(gvk schema.GroupVersionKind, patience *source.Backoff, err error) {
	if !patience.LogError(err) {
		return
	}
	if apierrors.IsNotFound(err) {
		h.opts.Catalog.ReportNotFound(gvk)
	}
}

// handler adapts a typed callback. It drops notifications without a change, which a new list after a broken watch
// brings, and gives the last known state of what was deleted unseen.
func handler[T any](convert func(any) (T, metav1.Object), notify func(old, new T)) cache.ResourceEventHandler {
	return listingHandler(convert, func(old, now T, _ bool) { notify(old, now) })
}

// listingHandler is a handler that tells as well what was listed, as Notify has it.
func listingHandler[T any](convert func(any) (T, metav1.Object), notify func(old, new T, listed bool)) cache.ResourceEventHandler {
	var none T
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, isInInitialList bool) {
			if o, m := convert(obj); m != nil {
				notify(none, o, isInInitialList)
			}
		},
		UpdateFunc: func(before, after any) {
			o, om := convert(before)
			n, nm := convert(after)
			if om == nil || nm == nil {
				return
			}
			if om.GetResourceVersion() == nm.GetResourceVersion() && om.GetUID() == nm.GetUID() {
				return
			}
			notify(o, n, false)
		},
		DeleteFunc: func(obj any) {
			if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = t.Obj
			}
			if o, m := convert(obj); m != nil {
				notify(o, none, false)
			}
		},
	}
}
