package watch

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/mutation"
	"mlkeeper.dev/internal/engine/watch/source"
)

// informer is one declared watch: a kind and a selector.
type informer struct {
	gvk                          schema.GroupVersionKind
	labelSelector, fieldSelector string
	// controller is whose children are watched, and declared the version in which they were declared last; both are empty for other watches.
	controller, declared string
	// fullObject watches full objects; otherwise the API server sends metadata only.
	fullObject bool
	// chosen says that a user chose the kind.
	chosen bool
	// typed says that transform also accepts the Go types of built-in kinds.
	typed bool
	// transform turns an object that was read into the one that is stored. It cannot fail, and must return an object that it
	// has already transformed unchanged.
	transform func(obj any) any
	indexers  cache.Indexers
	handlers  []eventHandler
	// mutations has our own writes. They override what the shared informers have stored.
	mutations *mutation.Cache
	// running is nil while the API is not served, and after the watch was ended.
	running *runningInformers
}

// eventHandler returns the handler of the events of an informer.
type eventHandler func(*informer) cache.ResourceEventHandler

// newInformer completes an informer that is declared.
func (m *Manager) newInformer(inf informer) *informer {
	inf.mutations = mutation.New(m.clock, store{&inf})
	return &inf
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

// forbidden returns why one of the lists or watches is forbidden, or nil.
func (r *runningInformers) forbidden() error {
	for _, b := range r.backoffs {
		if err := b.Forbidden(); err != nil {
			return err
		}
	}
	return nil
}

// stop stops a watch that runs, and drops its store.
func (inf *informer) stop() {
	inf.running.cancel()
	inf.running = nil
	inf.mutations.Clear()
}

// forNamespace returns the shared informer that watches a namespace, or nil.
func (r *runningInformers) forNamespace(namespace string) cache.SharedIndexInformer {
	if shared, ok := r.byNamespace[""]; ok {
		return shared
	}
	return r.byNamespace[namespace]
}

// get returns an object as it is stored, or as we wrote it last if the store has not observed that write; nil if there is none.
func (inf *informer) get(namespace, name string) metav1.Object {
	if inf == nil || inf.running == nil {
		return nil
	}
	return inf.mutations.Get(types.NamespacedName{Namespace: namespace, Name: name})
}

// byIndex calls each for every object that has a value in an index.
func (inf *informer) byIndex(index, value string, each func(metav1.Object)) {
	if inf == nil || inf.running == nil {
		return
	}
	has := func(o metav1.Object) bool {
		values, err := inf.indexers[index](o)
		return err == nil && slices.Contains(values, value)
	}
	inf.each(has, func(stored cache.Indexer) []any {
		objs, _ := stored.ByIndex(index, value)
		return objs
	}, each)
}

// inNamespace calls each for every object of a namespace; an empty namespace means all.
func (inf *informer) inNamespace(namespace string, each func(metav1.Object)) {
	if inf == nil || inf.running == nil {
		return
	}
	if namespace != "" {
		inf.byIndex(cache.NamespaceIndex, namespace, each)
		return
	}
	inf.each(func(metav1.Object) bool { return true }, cache.Indexer.List, each)
}

// each calls f for the objects that list finds in the stores. An object with a write of ours that a store has not observed is taken
// as it was written, if it matches: it may match only before or only after that write.
func (inf *informer) each(matches func(metav1.Object) bool, list func(cache.Indexer) []any, f func(metav1.Object)) {
	overrides := inf.mutations.Overrides()
	for _, o := range overrides {
		if o != nil && matches(o) {
			f(o)
		}
	}
	for _, shared := range inf.running.byNamespace {
		for _, obj := range list(shared.GetIndexer()) {
			o, ok := obj.(metav1.Object)
			if !ok {
				continue
			}
			if _, overridden := overrides[types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}]; !overridden {
				f(o)
			}
		}
	}
}

// wrote records the answer of a write.
func (inf *informer) wrote(obj any) {
	if inf == nil || inf.running == nil {
		return
	}
	if o, ok := inf.transform(obj).(metav1.Object); ok {
		inf.mutations.Updated(o)
	}
}

// store is what the shared informers of a declared watch have stored. The manager's lock guards it.
type store struct{ *informer }

// Get implements mutation.Store.
func (s store) Get(key types.NamespacedName) metav1.Object {
	if s.running == nil {
		return nil
	}
	shared := s.running.forNamespace(key.Namespace)
	if shared == nil {
		return nil
	}
	obj, _, _ := shared.GetIndexer().GetByKey(cache.NewObjectName(key.Namespace, key.Name).String())
	o, _ := obj.(metav1.Object)
	return o
}

// LastSyncResourceVersion implements mutation.Store.
func (s store) LastSyncResourceVersion(namespace string) string {
	if s.running == nil {
		return ""
	}
	shared := s.running.forNamespace(namespace)
	if shared == nil || !shared.HasSynced() {
		return ""
	}
	return shared.GetStore().LastStoreSyncResourceVersion()
}

// hasSyncedLocked reports whether the watch has synced. A watch whose API is not served counts as synced, since the API has
// no objects. That of children moves to another version as long as there is one.
func (m *Manager) hasSyncedLocked(inf *informer) bool {
	if inf == nil {
		return false
	}
	if inf.running == nil && inf.controller != "" {
		return len(m.opts.Catalog.Versions(inf.gvk.GroupKind())) == 0
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
func (m *Manager) addEventHandlerLocked(inf *informer, handler eventHandler) {
	inf.handlers = append(inf.handlers, handler)
	if inf.running == nil {
		return
	}
	for _, shared := range inf.running.byNamespace {
		if _, err := shared.AddEventHandler(handler(inf)); err != nil {
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
	backoff.OnChange = func() {
		if err := backoff.Forbidden(); err != nil && m.opts.OnForbidden != nil {
			m.opts.OnForbidden(inf.gvk.GroupKind(), err)
		}
	}
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
		if _, err := shared.AddEventHandler(handler(inf)); err != nil {
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

// undecodable says that a custom resource is cached by its name alone.
func undecodable(m metav1.Object) bool {
	_, is := m.(*Undecodable)
	return is
}

// handler adapts a typed callback, which may be nil. Before it calls the callback, it drops the writes that the store has observed.
// It does not call it for updates that do not change the object, which a relist after a broken watch sends. For an object that was
// deleted while the watch was broken, the callback receives the last known state.
func handler[T any](convert func(any) (T, metav1.Object), notify func(old, new T)) eventHandler {
	return initialListHandler(convert, func(old, now T, _ bool) {
		if notify != nil {
			notify(old, now)
		}
	})
}

// initialListHandler is a handler that also says whether an object is in the initial list, as Notify does.
func initialListHandler[T any](convert func(any) (T, metav1.Object), notify func(old, new T, isInInitialList bool)) eventHandler {
	var none T
	return func(inf *informer) cache.ResourceEventHandler {
		return cache.ResourceEventHandlerDetailedFuncs{
			AddFunc: func(obj any, isInInitialList bool) {
				if o, m := convert(obj); m != nil {
					inf.mutations.OnUpdate(m)
					notify(none, o, isInInitialList)
				}
			},
			UpdateFunc: func(before, after any) {
				o, om := convert(before)
				n, nm := convert(after)
				if om == nil || nm == nil {
					return
				}
				inf.mutations.OnUpdate(nm)
				// Whether it can be cached may change without a new version, as with the room that there is.
				if om.GetResourceVersion() != nm.GetResourceVersion() || om.GetUID() != nm.GetUID() || undecodable(om) != undecodable(nm) {
					notify(o, n, false)
				}
			},
			DeleteFunc: func(obj any) {
				if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
					obj = t.Obj
				}
				if o, m := convert(obj); m != nil {
					inf.mutations.OnDelete(m)
					notify(o, none, false)
				}
			},
		}
	}
}
