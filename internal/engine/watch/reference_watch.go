package watch

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/watch/source"
)

// syncState says how far a watch knows the state of a referenced object.
type syncState int

const (
	// stateNeedsGet is the state of an object that was referenced only after the watch had dropped it, or whose absence is to be confirmed: it
	// needs a live GET.
	stateNeedsGet syncState = iota
	// stateSynced is the state of an object that the watch keeps up to date.
	stateSynced
	// statePending is the state of every object until the watch has synced.
	statePending
)

// referencedObject is an object that somebody refers to.
type referencedObject struct {
	referrers map[Referrer]struct{}
	state     syncState
	// meta is nil while the object does not exist.
	meta *metav1.PartialObjectMetadata
	// confirms says that a list without the object does not tell that it is absent, while it was not read.
	confirms bool
	// deletedVersion is the resource version of the last deletion.
	deletedVersion string
}

// refWatch stores the identity and the version of the referenced objects of one scope. Of every other object it stores a hash of the name
// only. If an object is referenced later, a missing hash proves without a live read that the object does not exist. This saves
// a restart one read for each optional object that does not exist.
type refWatch struct {
	refs  *references
	scope scope

	// mapping and cancel belong to the running reflector. The lock of references guards them.
	mapping catalog.Mapping
	cancel  context.CancelFunc

	// mu is locked after the lock of references, never before it.
	mu sync.RWMutex
	// objects are the referenced objects by their key in the scope.
	objects map[string]*referencedObject
	// store is the store of the running reflector, or nil. The events of a reflector that stops late are ignored, because
	// its store differs from this one.
	store  *refStore
	synced bool
	// presentHashes are the hashes of the keys of all existing objects.
	presentHashes map[uint64]struct{}
}

// nameSeed makes the hashes of names unpredictable, so that nobody can choose names whose hashes collide. A collision by chance
// costs a live read, or hides an object that is referenced later until that object changes.
var nameSeed = maphash.MakeSeed()

func hashName(name string) uint64 { return maphash.String(nameSeed, name) }

func newRefWatch(r *references, s scope) *refWatch {
	return &refWatch{refs: r, scope: s, objects: map[string]*referencedObject{}}
}

func (w *refWatch) addReferrer(name string, referrer Referrer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ref := w.objects[name]
	if ref == nil {
		ref = &referencedObject{referrers: map[Referrer]struct{}{}}
		if _, exists := w.presentHashes[hashName(name)]; w.synced && !exists {
			ref.state = stateSynced // The object does not exist.
		}
		w.objects[name] = ref
	}
	ref.referrers[referrer] = struct{}{}
}

// confirmAbsence has an object read that is not seen: a new referrer relies on its absence.
func (w *refWatch) confirmAbsence(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ref := w.objects[name]; ref.meta == nil {
		ref.confirms, ref.state = true, stateNeedsGet
	}
}

// removeReferrer removes a referrer of an object. It returns true if no referenced object is left.
func (w *refWatch) removeReferrer(name string, referrer Referrer) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ref := w.objects[name]; ref != nil {
		delete(ref.referrers, referrer)
		if len(ref.referrers) == 0 {
			delete(w.objects, name)
		}
	}
	return len(w.objects) == 0
}

func (w *refWatch) referrers() []Referrer {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.referrersLocked()
}

func (w *refWatch) referrersLocked() []Referrer {
	var out []Referrer
	for _, ref := range w.objects {
		for referrer := range ref.referrers {
			out = append(out, referrer)
		}
	}
	return out
}

// get returns the metadata of an object, and how far the watch knows it.
func (w *refWatch) get(name string) (*metav1.PartialObjectMetadata, syncState, error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.store == nil {
		if _, served := w.refs.manager.opts.Catalog.Lookup(w.scope.gvk); !served {
			return nil, stateSynced, nil
		}
		return nil, statePending, nil
	}
	if err := w.store.backoff.Forbidden(); err != nil {
		return nil, statePending, err
	}
	ref := w.objects[name]
	if !w.synced || ref == nil {
		return nil, statePending, nil
	}
	return ref.meta, ref.state, nil
}

// watchError returns the error that keeps the watch from syncing, or nil.
func (w *refWatch) watchError() error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.store == nil || w.synced {
		return nil
	}
	return w.store.backoff.LastError()
}

// recordGet stores the result of a live read, and returns the metadata of the object. An event that arrived during the read
// takes precedence, unless the result is newer.
func (w *refWatch) recordGet(name string, got *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	w.mu.Lock()
	defer w.mu.Unlock()
	ref := w.objects[name]
	if ref == nil {
		return got
	}
	if ref.state == stateNeedsGet {
		ref.state, ref.meta = stateSynced, got
		return got
	}
	if got == nil {
		return ref.meta
	}
	last := ref.deletedVersion
	if ref.meta != nil {
		last = ref.meta.ResourceVersion
	}
	if observe.NewerVersion(got.ResourceVersion, last) {
		ref.meta = got
	}
	return ref.meta
}

func (w *refWatch) running() bool { return w.cancel != nil }

// start runs a reflector. The caller holds the lock of references.
func (w *refWatch) start(parent context.Context, mapping catalog.Mapping) {
	manager := w.refs.manager
	ctx, cancel := context.WithCancel(parent)
	log := manager.opts.Log.WithValues("resource", mapping.Resource.String(), "namespace", w.scope.namespace)
	backoff := source.NewBackoff(manager.clock, log)
	backoff.OnChange = func() { w.refs.enqueueAll(w.referrers()) }
	s := &refStore{watch: w, backoff: backoff}
	w.mapping, w.cancel = mapping, cancel
	w.mu.Lock()
	w.store, w.synced = s, false
	w.mu.Unlock()
	scope := source.Scope{Resource: mapping.Resource, Namespace: w.namespace(mapping.Namespaced)}
	if w.scope.name != "" {
		scope.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, w.scope.name).String()
	}
	debug := log.V(1)
	reflector := cache.NewReflectorWithOptions(source.Metadata(manager.opts.Metadata, scope, backoff),
		&metav1.PartialObjectMetadata{}, s, cache.ReflectorOptions{
			Name: "references", TypeDescription: mapping.Resource.String(), Logger: &debug,
		})
	manager.wg.Go(func() {
		// The backoff is that of Reflector.Run, which is not used here because it has no error handler.
		retry := wait.Backoff{Duration: 800 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 64, Cap: 30 * time.Second}
		_ = retry.DelayWithReset(manager.clock, 2*time.Minute).Until(source.Context(ctx, log), true, true,
			func(ctx context.Context) (bool, error) {
				if err := reflector.ListAndWatchWithContext(ctx); err != nil && ctx.Err() == nil {
					manager.watchFailed(w.scope.gvk, backoff, err)
				}
				return false, nil
			})
	})
}

// stop stops the reflector and drops its state. The caller holds the lock of references.
func (w *refWatch) stop() {
	if w.cancel == nil {
		return
	}
	w.cancel()
	w.cancel = nil
	w.mu.Lock()
	defer w.mu.Unlock()
	w.store, w.synced, w.presentHashes = nil, false, nil
	for _, ref := range w.objects {
		ref.state, ref.meta, ref.deletedVersion = stateNeedsGet, nil, ""
	}
}

// unreferenced stands for an object that nobody refers to, until the list that contains it is complete.
type unreferenced struct{ key string }

// refStore is the store of one reflector.
type refStore struct {
	watch   *refWatch
	backoff *source.Backoff
}

var _ cache.TransformingStore = (*refStore)(nil)

// Transformer drops unreferenced objects while the list is streamed. So a namespace with many objects costs the memory of
// their names, and only until the list is complete.
func (s *refStore) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		m, ok := obj.(*metav1.PartialObjectMetadata)
		if !ok {
			return obj, nil
		}
		s.watch.mu.RLock()
		key := s.watch.scope.key(m.Namespace, m.Name)
		_, referenced := s.watch.objects[key]
		s.watch.mu.RUnlock()
		if !referenced {
			return unreferenced{key: key}, nil
		}
		return observe.Identity(m), nil
	}
}

// Replace implements cache.ReflectorStore: it stores a complete list.
func (s *refStore) Replace(items []any, version string) error {
	w := s.watch
	w.mu.Lock()
	if w.store != s {
		w.mu.Unlock()
		return nil
	}
	var toEnqueue []Referrer
	listed := make(map[string]bool, len(w.objects))
	w.presentHashes = make(map[uint64]struct{}, len(items))
	for _, item := range items {
		switch o := item.(type) {
		case *metav1.PartialObjectMetadata:
			key := w.scope.key(o.Namespace, o.Name)
			w.presentHashes[hashName(key)] = struct{}{}
			if ref := w.objects[key]; ref != nil {
				listed[key] = true
				toEnqueue = append(toEnqueue, ref.markPresent(observe.Identity(o))...)
			}
		case unreferenced:
			w.presentHashes[hashName(o.key)] = struct{}{}
			// The object was referenced while the list was streamed.
			if ref := w.objects[o.key]; ref != nil {
				listed[o.key] = true
				if ref.meta == nil {
					ref.state = stateNeedsGet
					toEnqueue = append(toEnqueue, ref.listReferrers()...)
				}
			}
		}
	}
	for name, ref := range w.objects {
		if !listed[name] && (!ref.confirms || ref.state != stateNeedsGet) {
			toEnqueue = append(toEnqueue, ref.markAbsent(version)...)
		}
	}
	if !w.synced {
		w.synced = true
		toEnqueue = w.referrersLocked()
	}
	w.mu.Unlock()
	w.refs.enqueueAll(toEnqueue)
	return nil
}

// Add implements cache.ReflectorStore.
func (s *refStore) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s *refStore) Update(obj any) error {
	s.handleEvent(obj, true, func(ref *referencedObject, m *metav1.PartialObjectMetadata) []Referrer {
		return ref.markPresent(observe.Identity(m))
	})
	return nil
}

// Delete implements cache.ReflectorStore.
func (s *refStore) Delete(obj any) error {
	s.handleEvent(obj, false, func(ref *referencedObject, m *metav1.PartialObjectMetadata) []Referrer {
		return ref.markAbsent(m.ResourceVersion)
	})
	return nil
}

// Resync implements cache.ReflectorStore. It is never called, as the reflector has no resync period.
func (s *refStore) Resync() error { return nil }

func (s *refStore) handleEvent(
	obj any, exists bool, apply func(*referencedObject, *metav1.PartialObjectMetadata) []Referrer,
) {
	m, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	w := s.watch
	key := w.scope.key(m.Namespace, m.Name)
	var toEnqueue []Referrer
	w.mu.Lock()
	if w.store == s {
		if w.presentHashes == nil {
			w.presentHashes = map[uint64]struct{}{}
		}
		if exists {
			w.presentHashes[hashName(key)] = struct{}{}
		} else {
			delete(w.presentHashes, hashName(key))
		}
		if ref := w.objects[key]; ref != nil {
			toEnqueue = apply(ref, m)
		}
	}
	w.mu.Unlock()
	w.refs.enqueueAll(toEnqueue)
}

func (ref *referencedObject) listReferrers() []Referrer {
	out := make([]Referrer, 0, len(ref.referrers))
	for referrer := range ref.referrers {
		out = append(out, referrer)
	}
	return out
}

// markPresent stores a state of the object, and returns the referrers to enqueue. It ignores a state that is older than the
// result of a live read.
func (ref *referencedObject) markPresent(m *metav1.PartialObjectMetadata) []Referrer {
	if ref.state == stateSynced && ref.meta != nil {
		if ref.meta.ResourceVersion == m.ResourceVersion && ref.meta.UID == m.UID {
			return nil
		}
		if observe.NewerVersion(ref.meta.ResourceVersion, m.ResourceVersion) {
			return nil
		}
	}
	ref.state, ref.meta = stateSynced, m
	return ref.listReferrers()
}

// markAbsent records that the object did not exist at a resource version, and returns the referrers to enqueue.
func (ref *referencedObject) markAbsent(version string) []Referrer {
	if ref.meta != nil {
		if observe.NewerVersion(ref.meta.ResourceVersion, version) {
			return nil
		}
	}
	changed := ref.meta != nil || ref.state != stateSynced
	ref.state, ref.meta, ref.deletedVersion = stateSynced, nil, version
	if !changed {
		return nil
	}
	return ref.listReferrers()
}
