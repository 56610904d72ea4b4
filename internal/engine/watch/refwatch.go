package watch

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/watch/source"
)

// knowledge is what is known of a referenced name.
type knowledge int

const (
	// unread names became referenced after the watch had passed them by; they need one live read.
	unread knowledge = iota
	// settled names are kept up to date by the watch.
	settled
	// pending is the answer while the watch is not synced.
	pending
)

// refName is a referenced name.
type refName struct {
	holders map[Holder]struct{}
	state   knowledge
	// meta is nil while the object is absent.
	meta *metav1.PartialObjectMetadata
	// gone is the version at which the object was last seen to go.
	gone string
}

// refWatch keeps the metadata of the referenced objects of one place, and of any other object nothing but
// a hash of its name: by it a name that becomes referenced later is known to be absent without a read, which spares a
// restart one read for each optional object that does not exist.
type refWatch struct {
	refs  *references
	place place

	// mapping and cancel belong to the run, and are guarded by the lock of references.
	mapping catalog.Mapping
	cancel  context.CancelFunc

	// mu is taken after the lock of references, never before it.
	mu sync.RWMutex
	// names are the referenced objects by their key in the place.
	names map[string]*refName
	// store is that of the current run, or nil. A reflector that ends late finds that it is no longer its own.
	store  *refStore
	synced bool
	// present holds the hashes of the names of all objects there are.
	present map[uint64]struct{}
}

// nameSeed makes the hashes of names unpredictable, so that nobody can choose names whose hashes meet. Two that meet all
// the same cost a read, or hide one object from a name that becomes referenced later until that object changes.
var nameSeed = maphash.MakeSeed()

func hashOf(name string) uint64 { return maphash.String(nameSeed, name) }

func newRefWatch(r *references, p place) *refWatch {
	return &refWatch{refs: r, place: p, names: map[string]*refName{}}
}

func (w *refWatch) keep(name string, holder Holder) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.names[name]
	if n == nil {
		n = &refName{holders: map[Holder]struct{}{}}
		if _, there := w.present[hashOf(name)]; w.synced && !there {
			n.state = settled // It is known to be absent.
		}
		w.names[name] = n
	}
	n.holders[holder] = struct{}{}
}

// drop takes a holder off a name, and says whether no name is left.
func (w *refWatch) drop(name string, holder Holder) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.names[name]; n != nil {
		delete(n.holders, holder)
		if len(n.holders) == 0 {
			delete(w.names, name)
		}
	}
	return len(w.names) == 0
}

func (w *refWatch) holders() []Holder {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.holdersLocked()
}

func (w *refWatch) holdersLocked() []Holder {
	var out []Holder
	for _, n := range w.names {
		for h := range n.holders {
			out = append(out, h)
		}
	}
	return out
}

// look returns what is known of a name.
func (w *refWatch) look(name string) (*metav1.PartialObjectMetadata, knowledge, error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.store == nil {
		if _, served := w.refs.hub.opts.Catalog.Lookup(w.place.gvk); !served {
			return nil, settled, nil
		}
		return nil, pending, nil
	}
	if err := w.store.patience.Forbidden(); err != nil {
		return nil, pending, err
	}
	n := w.names[name]
	if !w.synced || n == nil {
		return nil, pending, nil
	}
	return n.meta, n.state, nil
}

// failure is what keeps the watch from being complete.
func (w *refWatch) failure() error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.store == nil || w.synced {
		return nil
	}
	return w.store.patience.LastError()
}

// fill takes in the answer of a live read and returns what is known now. An event that came during the read counts for
// more, unless the answer is newer.
func (w *refWatch) fill(name string, got *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.names[name]
	if n == nil {
		return got
	}
	if n.state == unread {
		n.state, n.meta = settled, got
		return got
	}
	if got == nil {
		return n.meta
	}
	last := n.gone
	if n.meta != nil {
		last = n.meta.ResourceVersion
	}
	if later, ok := newer(got.ResourceVersion, last); ok && later {
		n.meta = got
	}
	return n.meta
}

func (w *refWatch) running() bool { return w.cancel != nil }

// begin starts a run. The caller holds the lock of references.
func (w *refWatch) begin(parent context.Context, mapping catalog.Mapping) {
	hub := w.refs.hub
	ctx, cancel := context.WithCancel(parent)
	log := hub.opts.Log.WithValues("resource", mapping.Resource.String(), "namespace", w.place.namespace)
	patience := source.NewBackoff(hub.clock, log)
	patience.OnChange = func() { w.refs.wakeAll(w.holders()) }
	s := &refStore{watch: w, patience: patience}
	w.mapping, w.cancel = mapping, cancel
	w.mu.Lock()
	w.store, w.synced = s, false
	w.mu.Unlock()
	scope := source.Scope{Resource: mapping.Resource, Namespace: w.namespace(mapping.Namespaced)}
	if w.place.name != "" {
		scope.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, w.place.name).String()
	}
	debug := log.V(1)
	reflector := cache.NewReflectorWithOptions(source.Metadata(hub.opts.Metadata, scope, patience),
		&metav1.PartialObjectMetadata{}, s, cache.ReflectorOptions{
			Name: "references", TypeDescription: mapping.Resource.String(), Logger: &debug,
		})
	hub.wg.Go(func() {
		// The same backoff as the reflector's own loop, which does not let errors be handled.
		backoff := wait.Backoff{Duration: 800 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 64, Cap: 30 * time.Second}
		_ = backoff.DelayWithReset(hub.clock, 2*time.Minute).Until(source.Context(ctx, log), true, true,
			func(ctx context.Context) (bool, error) {
				if err := reflector.ListAndWatchWithContext(ctx); err != nil && ctx.Err() == nil {
					hub.watchFailed(w.place.gvk, patience, err)
				}
				return false, nil
			})
	})
}

// end stops the run and forgets what it knew. The caller holds the lock of references.
func (w *refWatch) end() {
	if w.cancel == nil {
		return
	}
	w.cancel()
	w.cancel = nil
	w.mu.Lock()
	defer w.mu.Unlock()
	w.store, w.synced, w.present = nil, false, nil
	for _, n := range w.names {
		n.state, n.meta, n.gone = unread, nil, ""
	}
}

// trim drops what nobody reads of somebody else's object.
func trim(m *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	m.ManagedFields = nil
	delete(m.Annotations, corev1.LastAppliedConfigAnnotation)
	return m
}

// bystander stands for an object that nobody refers to, while a list is under way.
type bystander struct{ key string }

// refStore is what the reflector of one run writes to.
type refStore struct {
	watch    *refWatch
	patience *source.Backoff
}

var _ cache.TransformingStore = (*refStore)(nil)

// Transformer makes the reflector drop bystanders one by one as they are streamed, so that a namespace with many
// objects costs their names at most, and only until the list is complete.
func (s *refStore) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		m, ok := obj.(*metav1.PartialObjectMetadata)
		if !ok {
			return obj, nil
		}
		s.watch.mu.RLock()
		key := s.watch.place.key(m.Namespace, m.Name)
		_, referenced := s.watch.names[key]
		s.watch.mu.RUnlock()
		if !referenced {
			return bystander{key: key}, nil
		}
		return trim(m), nil
	}
}

// Replace takes in a complete list.
func (s *refStore) Replace(items []any, version string) error {
	w := s.watch
	w.mu.Lock()
	if w.store != s {
		w.mu.Unlock()
		return nil
	}
	var woken []Holder
	listed := make(map[string]bool, len(w.names))
	w.present = make(map[uint64]struct{}, len(items))
	for _, item := range items {
		switch o := item.(type) {
		case *metav1.PartialObjectMetadata:
			key := w.place.key(o.Namespace, o.Name)
			w.present[hashOf(key)] = struct{}{}
			if n := w.names[key]; n != nil {
				listed[key] = true
				woken = append(woken, n.accept(trim(o))...)
			}
		case bystander:
			w.present[hashOf(o.key)] = struct{}{}
			// The name became referenced while the list was under way.
			if n := w.names[o.key]; n != nil {
				listed[o.key] = true
				if n.meta == nil {
					n.state = unread
					woken = append(woken, n.all()...)
				}
			}
		}
	}
	for name, n := range w.names {
		if !listed[name] {
			woken = append(woken, n.lose(version)...)
		}
	}
	if !w.synced {
		w.synced = true
		woken = w.holdersLocked()
	}
	w.mu.Unlock()
	w.refs.wakeAll(woken)
	return nil
}

// Add takes in an object that appeared.
func (s *refStore) Add(obj any) error { return s.Update(obj) }

// Update takes in an object that changed.
func (s *refStore) Update(obj any) error {
	s.event(obj, true, func(n *refName, m *metav1.PartialObjectMetadata) []Holder { return n.accept(trim(m)) })
	return nil
}

// Delete takes in that an object is gone.
func (s *refStore) Delete(obj any) error {
	s.event(obj, false, func(n *refName, m *metav1.PartialObjectMetadata) []Holder { return n.lose(m.ResourceVersion) })
	return nil
}

// Resync is never called, as the reflector has no resync period.
func (s *refStore) Resync() error { return nil }

func (s *refStore) event(
	obj any, there bool, take func(*refName, *metav1.PartialObjectMetadata) []Holder,
) {
	m, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	w := s.watch
	key := w.place.key(m.Namespace, m.Name)
	var woken []Holder
	w.mu.Lock()
	if w.store == s {
		if w.present == nil {
			w.present = map[uint64]struct{}{}
		}
		if there {
			w.present[hashOf(key)] = struct{}{}
		} else {
			delete(w.present, hashOf(key))
		}
		if n := w.names[key]; n != nil {
			woken = take(n, m)
		}
	}
	w.mu.Unlock()
	w.refs.wakeAll(woken)
}

func (n *refName) all() []Holder {
	out := make([]Holder, 0, len(n.holders))
	for h := range n.holders {
		out = append(out, h)
	}
	return out
}

// accept takes in a state of the object and returns whom to wake. A state that is older than the answer of a live read
// is late news.
func (n *refName) accept(m *metav1.PartialObjectMetadata) []Holder {
	if n.state == settled && n.meta != nil {
		if n.meta.ResourceVersion == m.ResourceVersion && n.meta.UID == m.UID {
			return nil
		}
		if late, ok := newer(n.meta.ResourceVersion, m.ResourceVersion); ok && late {
			return nil
		}
	}
	n.state, n.meta = settled, m
	return n.all()
}

// lose takes in that the object was absent at a version and returns whom to wake.
func (n *refName) lose(version string) []Holder {
	if n.meta != nil {
		if late, ok := newer(n.meta.ResourceVersion, version); ok && late {
			return nil
		}
	}
	changed := n.meta != nil || n.state != settled
	n.state, n.meta, n.gone = settled, nil, version
	if !changed {
		return nil
	}
	return n.all()
}
