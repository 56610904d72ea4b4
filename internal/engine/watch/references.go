package watch

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/observe"
)

// Referrer is a custom resource that refers to an object that it does not own.
type Referrer struct {
	Kind            schema.GroupKind
	Namespace, Name string
}

// Ref identifies an object that a referrer refers to.
type Ref struct {
	GVK             schema.GroupVersionKind
	Namespace, Name string
}

// scope is what one reflector watches: all objects of a kind in a namespace, or the objects of one name in all namespaces.
type scope struct {
	gvk       schema.GroupVersionKind
	namespace string
	// name is set if the watch is shared between namespaces; the namespace is empty then.
	name string
}

// key returns what identifies an object within the scope: its namespace if the name is fixed, else its name.
func (s scope) key(namespace, name string) string {
	if s.name != "" {
		return namespace
	}
	return name
}

// sharedName identifies a shared watch.
type sharedName struct {
	gvk  schema.GroupVersionKind
	name string
}

// ShareWatch makes one watch serve the references of all namespaces to objects of a kind and name. It has no effect if the
// manager is restricted to some namespaces.
func (m *Manager) ShareWatch(gvk schema.GroupVersionKind, name string) {
	if len(m.opts.Namespaces) > 0 {
		return
	}
	m.refs.mu.Lock()
	defer m.refs.mu.Unlock()
	m.refs.shared[sharedName{gvk, name}] = true
}

// confirmation says that referrers of a kind rely on the absence of objects of a kind.
type confirmation struct {
	referrer schema.GroupKind
	gvk      schema.GroupVersionKind
}

// ConfirmAbsence has the absence of an object confirmed by one live read for each new reference that custom resources of a kind have to it. It is
// for objects that are created right before the custom resource that refers to them: the watches are not in order, so that of the custom resource
// may be ahead of that of the object.
func (m *Manager) ConfirmAbsence(referrer schema.GroupKind, gvk schema.GroupVersionKind) {
	m.refs.mu.Lock()
	defer m.refs.mu.Unlock()
	m.refs.confirmed[confirmation{referrer, gvk}] = true
}

// scopeLocked returns the scope of the watch that serves a reference.
func (r *references) scopeLocked(ref Ref) scope {
	if r.shared[sharedName{ref.GVK, ref.Name}] {
		return scope{gvk: ref.GVK, name: ref.Name}
	}
	return scope{gvk: ref.GVK, namespace: ref.Namespace}
}

// references owns the watches on the objects that custom resources refer to by name (invariant 13).
type references struct {
	manager *Manager

	mu         sync.RWMutex
	ctx        context.Context
	enqueue    []func(Referrer)
	watches    map[scope]*refWatch
	byReferrer map[Referrer]map[Ref]struct{}
	shared     map[sharedName]bool
	confirmed  map[confirmation]bool
}

func newReferences(m *Manager) *references {
	return &references{
		manager: m, watches: map[scope]*refWatch{}, byReferrer: map[Referrer]map[Ref]struct{}{}, shared: map[sharedName]bool{},
		confirmed: map[confirmation]bool{},
	}
}

// Reference declares that referrer refers to an object by name. It returns the identity and the version of the object, or nil if the object
// does not exist. synced is false until the watch has synced; the referrer is enqueued then. An error that
// apierrors.IsForbidden recognizes says that the watch is forbidden; it is retried with backoff (invariant 15), and the referrer
// is enqueued when it is allowed. ErrTooManyNamespaces says that the object is not watched.
func (m *Manager) Reference(ctx context.Context, referrer Referrer, gvk schema.GroupVersionKind, namespace, name string,
) (meta *metav1.PartialObjectMetadata, synced bool, err error) {
	ref := Ref{GVK: gvk, Namespace: namespace, Name: name}
	m.refs.mu.RLock()
	_, referenced := m.refs.byReferrer[referrer][ref]
	w := m.refs.watches[m.refs.scopeLocked(ref)]
	m.refs.mu.RUnlock()
	if !referenced || w == nil {
		if w = m.refs.add(referrer, ref); w == nil {
			return nil, false, ErrTooManyNamespaces
		}
	}
	key := w.scope.key(namespace, name)
	meta, state, err := w.get(key)
	if err != nil || state != stateNeedsGet {
		return meta, state == stateSynced, err
	}
	// The watch had already dropped the object when this reference was added, or may be behind. It keeps the object since add, so an
	// event that arrives during the read is not lost.
	got, err := w.liveGet(ctx, namespace, name)
	if err != nil {
		return nil, false, err
	}
	return w.recordGet(key, got), true, nil
}

// ReferenceWatchError returns the error that keeps the watch on a referenced object from syncing; nil if it has synced or was
// not tried yet.
func (m *Manager) ReferenceWatchError(gvk schema.GroupVersionKind, namespace, name string) error {
	m.refs.mu.RLock()
	defer m.refs.mu.RUnlock()
	w := m.refs.watches[m.refs.scopeLocked(Ref{GVK: gvk, Namespace: namespace, Name: name})]
	if w == nil {
		return nil
	}
	return w.watchError()
}

// ReleaseReferences drops the references of a referrer, except those in keep. A watch without references stops.
func (m *Manager) ReleaseReferences(referrer Referrer, keep ...Ref) {
	r := m.refs
	r.mu.Lock()
	defer r.mu.Unlock()
	for ref := range r.byReferrer[referrer] {
		if slices.Contains(keep, ref) {
			continue
		}
		delete(r.byReferrer[referrer], ref)
		if w := r.watches[r.scopeLocked(ref)]; w != nil && w.removeReferrer(w.scope.key(ref.Namespace, ref.Name), referrer) {
			w.stop()
			delete(r.watches, w.scope)
		}
	}
	if len(r.byReferrer[referrer]) == 0 {
		delete(r.byReferrer, referrer)
	}
}

// OnReferenceChange registers a callback that enqueues a referrer. It is called when a referenced object is created, updated or
// deleted, once after the watch has synced, and when the watch becomes forbidden or allowed. It must not block.
func (m *Manager) OnReferenceChange(enqueue func(Referrer)) {
	m.refs.mu.Lock()
	defer m.refs.mu.Unlock()
	m.refs.enqueue = append(m.refs.enqueue, enqueue)
}

// maxForeignNamespaces is the number of namespaces beside their own to which the custom resources of one namespace may refer. Each
// of them costs the API server and this process a watch, and a user may invent their names.
const maxForeignNamespaces = 16

// ErrTooManyNamespaces is the error of a reference to one namespace more.
var ErrTooManyNamespaces = fmt.Errorf("the custom resources of this namespace refer to objects in %d other namespaces, and more are not watched",
	maxForeignNamespaces)

// admitsLocked reports whether the custom resources of the referrer's namespace may have this scope watched.
func (r *references) admitsLocked(referrer Referrer, s scope) bool {
	foreign := func(s scope) bool { return s.namespace != "" && s.namespace != referrer.Namespace }
	if referrer.Namespace == "" || !foreign(s) {
		return true // Administrators bring cluster-scoped custom resources.
	}
	watched := map[string]bool{}
	for other, refs := range r.byReferrer {
		if other.Namespace != referrer.Namespace {
			continue
		}
		for ref := range refs {
			if of := r.scopeLocked(ref); foreign(of) {
				watched[of.namespace] = true
			}
		}
	}
	return watched[s.namespace] || len(watched) < maxForeignNamespaces
}

// add declares a reference, and returns its watch; nil for one that is not admitted.
func (r *references) add(referrer Referrer, ref Ref) *refWatch {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.admitsLocked(referrer, r.scopeLocked(ref)) {
		return nil
	}
	if r.byReferrer[referrer] == nil {
		r.byReferrer[referrer] = map[Ref]struct{}{}
	}
	r.byReferrer[referrer][ref] = struct{}{}
	scope := r.scopeLocked(ref)
	w := r.watches[scope]
	if w == nil {
		w = newRefWatch(r, scope)
		r.watches[scope] = w
	}
	// The referrer is added before the watch starts, so that the first list keeps the object.
	w.addReferrer(scope.key(ref.Namespace, ref.Name), referrer)
	if r.confirmed[confirmation{referrer.Kind, ref.GVK}] {
		w.confirmAbsence(scope.key(ref.Namespace, ref.Name))
	}
	r.startOrStopLocked(w)
	return w
}

func (r *references) start(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ctx = ctx
	for _, w := range r.watches {
		r.startOrStopLocked(w)
	}
}

func (r *references) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ctx = nil
}

func (r *references) servedChanged(gk schema.GroupKind) {
	r.mu.Lock()
	var toEnqueue []Referrer
	for s, w := range r.watches {
		if s.gvk.GroupKind() == gk {
			if r.startOrStopLocked(w) {
				toEnqueue = append(toEnqueue, w.referrers()...)
			}
		}
	}
	r.mu.Unlock()
	r.enqueueAll(toEnqueue)
}

// startOrStopLocked starts, stops or restarts a watch so that it matches the catalog. It returns whether it stopped the watch.
func (r *references) startOrStopLocked(w *refWatch) (stopped bool) {
	if r.ctx == nil || r.ctx.Err() != nil {
		return false
	}
	mapping, served := r.manager.opts.Catalog.Lookup(w.scope.gvk)
	if w.running() && (!served || w.mapping != mapping) {
		w.stop()
		stopped = true
	}
	if served && !w.running() {
		w.start(r.ctx, mapping)
	}
	return stopped
}

func (r *references) enqueueAll(referrers []Referrer) {
	if len(referrers) == 0 {
		return
	}
	r.mu.RLock()
	enqueue := slices.Clone(r.enqueue)
	r.mu.RUnlock()
	for _, referrer := range referrers {
		for _, f := range enqueue {
			f(referrer)
		}
	}
}

// liveGet reads the metadata of one object from the API server; nil if it does not exist.
func (w *refWatch) liveGet(ctx context.Context, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	mapping, served := w.refs.manager.opts.Catalog.Lookup(w.scope.gvk)
	if !served {
		return nil, nil
	}
	if !mapping.Namespaced {
		namespace = ""
	}
	m, err := w.refs.manager.opts.Metadata.Resource(mapping.Resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the metadata of %s %s/%s: %w", w.scope.gvk.Kind, namespace, name, err)
	}
	return observe.Identity(m), nil
}

func (w *refWatch) namespace(namespaced bool) string {
	if !namespaced {
		return ""
	}
	return w.scope.namespace
}
