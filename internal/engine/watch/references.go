package watch

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Holder is the custom resource that refers to an object of somebody else.
type Holder struct {
	Kind            schema.GroupKind
	Namespace, Name string
}

// Ref is an object that a holder refers to.
type Ref struct {
	GVK             schema.GroupVersionKind
	Namespace, Name string
}

// place is what one reflector watches: all objects of a kind in a namespace, or those of one name in all namespaces.
type place struct {
	gvk       schema.GroupVersionKind
	namespace string
	// name is set for a name that is the same in every namespace; the namespace is empty then.
	name string
}

// key tells the objects of a place apart.
func (p place) key(namespace, name string) string {
	if p.name != "" {
		return namespace
	}
	return name
}

// sharedName is a name of a kind.
type sharedName struct {
	gvk  schema.GroupVersionKind
	name string
}

// Share says that custom resources of many namespaces refer to objects of the same kind and name: one watch serves them
// all, unless the hub is restricted to some namespaces.
func (h *Hub) Share(gvk schema.GroupVersionKind, name string) {
	if len(h.opts.Namespaces) > 0 {
		return
	}
	h.refs.mu.Lock()
	defer h.refs.mu.Unlock()
	h.refs.shared[sharedName{gvk, name}] = true
}

// placeLocked is what is watched for a reference.
func (r *references) placeLocked(ref Ref) place {
	if r.shared[sharedName{ref.GVK, ref.Name}] {
		return place{gvk: ref.GVK, name: ref.Name}
	}
	return place{gvk: ref.GVK, namespace: ref.Namespace}
}

// references owns the watches on objects that custom resources refer to by name (law 13).
type references struct {
	hub *Hub

	mu      sync.RWMutex
	ctx     context.Context
	wake    []func(Holder)
	watches map[place]*refWatch
	held    map[Holder]map[Ref]struct{}
	shared  map[sharedName]bool
}

func newReferences(h *Hub) *references {
	return &references{
		hub: h, watches: map[place]*refWatch{}, held: map[Holder]map[Ref]struct{}{}, shared: map[sharedName]bool{},
	}
}

// Reference declares that holder refers to an object by name and returns the object's metadata, nil if it is absent,
// and whether that is known yet. While it is not known, the holder is woken as soon as it is. An error that
// apierrors.IsForbidden recognizes says that the watch is refused; it is retried with backoff (law 15), and the holder
// is woken when it works.
func (h *Hub) Reference(ctx context.Context, holder Holder, gvk schema.GroupVersionKind, namespace, name string,
) (meta *metav1.PartialObjectMetadata, known bool, err error) {
	ref := Ref{GVK: gvk, Namespace: namespace, Name: name}
	h.refs.mu.RLock()
	_, held := h.refs.held[holder][ref]
	w := h.refs.watches[h.refs.placeLocked(ref)]
	h.refs.mu.RUnlock()
	if !held || w == nil {
		w = h.refs.hold(holder, ref)
	}
	key := w.place.key(namespace, name)
	meta, state, err := w.look(key)
	if err != nil || state != unread {
		return meta, state == settled, err
	}
	// The name became referenced after the watch had passed it by. It has been kept since hold, so an event that
	// comes during the read is not lost.
	got, err := w.read(ctx, namespace, name)
	if err != nil {
		return nil, false, err
	}
	return w.fill(key, got), true, nil
}

// ReferenceFailure says why the watch on a referenced object cannot be opened; nil where it is open, or was not tried yet.
func (h *Hub) ReferenceFailure(gvk schema.GroupVersionKind, namespace, name string) error {
	h.refs.mu.RLock()
	defer h.refs.mu.RUnlock()
	w := h.refs.watches[h.refs.placeLocked(Ref{GVK: gvk, Namespace: namespace, Name: name})]
	if w == nil {
		return nil
	}
	return w.failure()
}

// Release drops what a holder refers to, except keep. A watch without references ends.
func (h *Hub) Release(holder Holder, keep ...Ref) {
	r := h.refs
	r.mu.Lock()
	defer r.mu.Unlock()
	for ref := range r.held[holder] {
		if slices.Contains(keep, ref) {
			continue
		}
		delete(r.held[holder], ref)
		if w := r.watches[r.placeLocked(ref)]; w != nil && w.drop(w.place.key(ref.Namespace, ref.Name), holder) {
			w.end()
			delete(r.watches, w.place)
		}
	}
	if len(r.held[holder]) == 0 {
		delete(r.held, holder)
	}
}

// OnReference registers a callback that is called when an object that a holder refers to appears, changes or goes, once
// after its watch is synced, and when the watch is refused. It must not block.
func (h *Hub) OnReference(wake func(Holder)) {
	h.refs.mu.Lock()
	defer h.refs.mu.Unlock()
	h.refs.wake = append(h.refs.wake, wake)
}

func (r *references) hold(holder Holder, ref Ref) *refWatch {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held[holder] == nil {
		r.held[holder] = map[Ref]struct{}{}
	}
	r.held[holder][ref] = struct{}{}
	at := r.placeLocked(ref)
	w := r.watches[at]
	if w == nil {
		w = newRefWatch(r, at)
		r.watches[at] = w
	}
	// The name is kept before the watch starts, so that the first list has it.
	w.keep(at.key(ref.Namespace, ref.Name), holder)
	r.adjustLocked(w)
	return w
}

func (r *references) start(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ctx = ctx
	for _, w := range r.watches {
		r.adjustLocked(w)
	}
}

func (r *references) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ctx = nil
}

func (r *references) servedChanged(gk schema.GroupKind) {
	r.mu.Lock()
	var woken []Holder
	for p, w := range r.watches {
		if p.gvk.GroupKind() == gk {
			if r.adjustLocked(w) {
				woken = append(woken, w.holders()...)
			}
		}
	}
	r.mu.Unlock()
	r.wakeAll(woken)
}

// adjustLocked starts or ends a watch as the catalog demands, and says whether it ended one.
func (r *references) adjustLocked(w *refWatch) (ended bool) {
	if r.ctx == nil || r.ctx.Err() != nil {
		return false
	}
	mapping, served := r.hub.opts.Catalog.Lookup(w.place.gvk)
	if w.running() && (!served || w.mapping != mapping) {
		w.end()
		ended = true
	}
	if served && !w.running() {
		w.begin(r.ctx, mapping)
	}
	return ended
}

func (r *references) wakeAll(holders []Holder) {
	if len(holders) == 0 {
		return
	}
	r.mu.RLock()
	wake := slices.Clone(r.wake)
	r.mu.RUnlock()
	for _, h := range holders {
		for _, f := range wake {
			f(h)
		}
	}
}

// read reads the metadata of one object live; nil if it is absent.
func (w *refWatch) read(ctx context.Context, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	mapping, served := w.refs.hub.opts.Catalog.Lookup(w.place.gvk)
	if !served {
		return nil, nil
	}
	if !mapping.Namespaced {
		namespace = ""
	}
	m, err := w.refs.hub.opts.Metadata.Resource(mapping.Resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the metadata of %s %s/%s: %w", w.place.gvk.Kind, namespace, name, err)
	}
	return trim(m), nil
}

func (w *refWatch) namespace(namespaced bool) string {
	if !namespaced {
		return ""
	}
	return w.place.namespace
}
