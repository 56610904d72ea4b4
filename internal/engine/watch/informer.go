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

// informer is one declared watch: a kind and a selector.
type informer struct {
	gvk                          schema.GroupVersionKind
	labelSelector, fieldSelector string
	// fullObject watches full objects; otherwise the API server sends metadata only.
	fullObject bool
	// typed says that transform also accepts the Go types of built-in kinds.
	typed bool
	// transform turns an object that was read into the one that is stored. It cannot fail, and must return an object that it
	// has already transformed unchanged.
	transform func(obj any) any
	indexers  cache.Indexers
	handlers  []cache.ResourceEventHandler
	// onStop is called after the watch stopped; it may be nil.
	onStop func()
	// running is nil while the API is not served, and after the watch was ended.
	running *runningInformers
}

// runningInformers are the shared informers of a declared watch while its API is served.
type runningInformers struct {
	mapping catalog.Mapping
	// byNamespace has the key "" for an informer that watches all namespaces.
	byNamespace map[string]cache.SharedIndexInformer
	// backoffs has one entry for each informer.
	backoffs []*source.Backoff
	cancel   context.CancelFunc
}

// watchError returns the last error of a list or watch, or nil.
func (r *runningInformers) watchError() error {
	for _, b := range r.backoffs {
		if err := b.LastError(); err != nil {
			return err
		}
	}
	return nil
}

// stop stops a watch that runs, and drops its store.
func (inf *informer) stop() {
	inf.running.cancel()
	inf.running = nil
	if inf.onStop != nil {
		inf.onStop()
	}
}

// forNamespace returns the shared informer that watches a namespace, or nil.
func (r *runningInformers) forNamespace(namespace string) cache.SharedIndexInformer {
	if shared, ok := r.byNamespace[""]; ok {
		return shared
	}
	return r.byNamespace[namespace]
}

// get returns a stored object, or nil.
func (inf *informer) get(namespace, name string) any {
	if inf == nil || inf.running == nil {
		return nil
	}
	shared := inf.running.forNamespace(namespace)
	if shared == nil {
		return nil
	}
	key := name
	if namespace != "" {
		key = namespace + "/" + name
	}
	obj, _, _ := shared.GetIndexer().GetByKey(key)
	return obj
}

// byIndex calls each for every stored object that has a value in an index.
func (inf *informer) byIndex(index, value string, each func(any)) {
	if inf == nil || inf.running == nil {
		return
	}
	for _, shared := range inf.running.byNamespace {
		objs, err := shared.GetIndexer().ByIndex(index, value)
		if err != nil {
			continue
		}
		for _, o := range objs {
			each(o)
		}
	}
}

// inNamespace calls each for every stored object of a namespace; an empty namespace means all.
func (inf *informer) inNamespace(namespace string, each func(any)) {
	if inf == nil || inf.running == nil {
		return
	}
	if namespace != "" {
		inf.byIndex(cache.NamespaceIndex, namespace, each)
		return
	}
	for _, shared := range inf.running.byNamespace {
		for _, o := range shared.GetIndexer().List() {
			each(o)
		}
	}
}

// hasSyncedLocked reports whether the watch has synced. A watch whose API is not served counts as synced, since the API has
// no objects.
func (m *Manager) hasSyncedLocked(inf *informer) bool {
	if inf == nil {
		return false
	}
	if inf.running == nil {
		_, served := m.opts.Catalog.Lookup(inf.gvk)
		return !served
	}
	for _, shared := range inf.running.byNamespace {
		if !shared.HasSynced() {
			return false
		}
	}
	return true
}

// addEventHandlerLocked adds an event handler, which receives an Add event for every stored object.
func (m *Manager) addEventHandlerLocked(inf *informer, handler cache.ResourceEventHandler) {
	inf.handlers = append(inf.handlers, handler)
	if inf.running == nil {
		return
	}
	for _, shared := range inf.running.byNamespace {
		if _, err := shared.AddEventHandler(handler); err != nil {
			m.opts.Log.Error(err, "cannot add an event handler", "kind", inf.gvk.String())
		}
	}
}

// startOrStopLocked starts, stops or restarts a watch so that it matches the catalog.
func (m *Manager) startOrStopLocked(inf *informer) {
	if m.ctx == nil || m.ctx.Err() != nil {
		return
	}
	mapping, served := m.opts.Catalog.Lookup(inf.gvk)
	if inf.running != nil && (!served || inf.running.mapping != mapping) {
		inf.stop()
	}
	if inf.running != nil || !served {
		return
	}
	namespaces := m.opts.Namespaces
	if len(namespaces) == 0 || !mapping.Namespaced {
		namespaces = []string{metav1.NamespaceAll}
	}
	ctx, cancel := context.WithCancel(m.ctx)
	inf.running = &runningInformers{mapping: mapping, byNamespace: make(map[string]cache.SharedIndexInformer, len(namespaces)), cancel: cancel}
	for _, namespace := range namespaces {
		shared, err := m.newSharedInformer(inf, mapping, namespace)
		if err != nil {
			m.opts.Log.Error(err, "cannot watch", "kind", inf.gvk.String())
			continue
		}
		inf.running.byNamespace[namespace] = shared
		m.wg.Go(func() { shared.RunWithContext(source.Context(ctx, m.opts.Log)) })
	}
	if m.opts.OnSynced == nil {
		return
	}
	var synced []cache.InformerSynced
	for _, shared := range inf.running.byNamespace {
		synced = append(synced, shared.HasSynced)
	}
	m.wg.Go(func() {
		// An API without objects sends no event, so OnSynced is the only notification that its watch has synced.
		if cache.WaitForCacheSync(ctx.Done(), synced...) {
			m.opts.OnSynced(inf.gvk.GroupKind())
		}
	})
}

func (m *Manager) newSharedInformer(inf *informer, mapping catalog.Mapping, namespace string) (cache.SharedIndexInformer, error) {
	log := m.opts.Log.WithValues("resource", mapping.Resource.String(), "namespace", namespace,
		"labels", inf.labelSelector, "fields", inf.fieldSelector)
	backoff := source.NewBackoff(m.clock, log)
	inf.running.backoffs = append(inf.running.backoffs, backoff)
	scope := source.Scope{
		Resource: mapping.Resource, Namespace: namespace,
		LabelSelector: inf.labelSelector, FieldSelector: inf.fieldSelector,
	}
	lw, example, err := m.listerWatcher(inf, scope, backoff)
	if err != nil {
		return nil, err
	}
	shared := cache.NewSharedIndexInformerWithOptions(lw, example, cache.SharedIndexInformerOptions{
		Indexers: inf.indexers, ObjectDescription: mapping.Resource.String(),
	})
	err = shared.SetTransform(func(obj any) (any, error) { return inf.transform(obj), nil })
	if err != nil {
		return nil, fmt.Errorf("set transform: %w", err)
	}
	err = shared.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		m.watchFailed(inf.gvk, backoff, err)
	})
	if err != nil {
		return nil, fmt.Errorf("set error handler: %w", err)
	}
	for _, handler := range inf.handlers {
		if _, err := shared.AddEventHandler(handler); err != nil {
			return nil, fmt.Errorf("add event handler: %w", err)
		}
	}
	return shared, nil
}

// listerWatcher chooses how an informer reads: metadata only, protobuf for built-in kinds where the transform accepts their Go
// types, and JSON for everything else.
func (m *Manager) listerWatcher(inf *informer, scope source.Scope, backoff *source.Backoff) (cache.ListerWatcher, runtime.Object, error) {
	switch {
	case !inf.fullObject:
		return source.Metadata(m.opts.Metadata, scope, backoff), &metav1.PartialObjectMetadata{}, nil
	case inf.typed && m.opts.Builtin.Recognizes(inf.gvk):
		example, err := m.opts.Builtin.New(inf.gvk)
		if err != nil {
			return nil, nil, err
		}
		lw, err := source.Typed(m.opts.Builtin, inf.gvk, scope, backoff)
		return lw, example, err
	}
	return source.Dynamic(m.opts.Dynamic, scope, backoff), &unstructured.Unstructured{}, nil
}

// watchFailed logs a failed watch. A 404 may mean that the API is no longer served, so the catalog checks that.
func (m *Manager) watchFailed(gvk schema.GroupVersionKind, backoff *source.Backoff, err error) {
	if !backoff.LogError(err) {
		return
	}
	if apierrors.IsNotFound(err) {
		m.opts.Catalog.ReportNotFound(gvk)
	}
}

// handler adapts a typed callback. It drops updates that do not change the object, which a relist after a broken watch
// sends. For an object that was deleted while the watch was broken, the callback receives the last known state.
func handler[T any](convert func(any) (T, metav1.Object), notify func(old, new T)) cache.ResourceEventHandler {
	return initialListHandler(convert, func(old, now T, _ bool) { notify(old, now) })
}

// initialListHandler is a handler that also says whether an object is in the initial list, as Notify does.
func initialListHandler[T any](convert func(any) (T, metav1.Object), notify func(old, new T, isInInitialList bool)) cache.ResourceEventHandler {
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
