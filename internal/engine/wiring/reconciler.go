package wiring

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/plan"
)

const (
	// FieldManager is the name under which entries in objects of others are written. It differs from the engine's own,
	// so that the entries never look like a child of ours (invariant 9).
	FieldManager = "mlkeeper-wiring"
	// syncRetry is how soon an absent object is looked for again in a cache that is not complete yet. It asks the cache
	// only, never the cluster.
	syncRetry = time.Second
)

// conflictRetry is how soon a write that lost a race is tried again: at once, but through the queue, so that the event of the
// winner is coalesced with it. One that loses every race, which is no race any more, waits longer and longer.
var conflictRetry = backoff.Policy{First: 10 * time.Millisecond, Longest: 10 * time.Second}

// ErrUnknown is returned by Deps.Alive while it cannot be told which custom resources are alive: their cache has not
// synced, the controller is switched off. The object is then left alone (invariant 4).
var ErrUnknown = errors.New("it is not known which custom resources are alive")

// Source is where the watched targets come from; the engine's informer manager satisfies it.
type Source interface {
	// Target returns the object that the wire watches under the name, reduced by the wire's Strip, or nil. It is the
	// cached object, or what Wrote was called with if the cache has not observed that (invariant 12). It is shared and never
	// changed.
	Target(wire, namespace, name string) *unstructured.Unstructured
	// Wrote records the answer of a write. It owns the object.
	Wrote(wire string, u *unstructured.Unstructured)
	// TargetsSynced says whether the cache of the wire is complete. What an incomplete cache does not hold may exist
	// nevertheless.
	TargetsSynced(wire string) bool
}

// Deps is what a Reconciler works with.
type Deps struct {
	Client dynamic.Interface
	// Resource maps a kind to its resource; false while the kind is not served.
	Resource func(schema.GroupVersionKind) (schema.GroupVersionResource, bool)
	Source   Source
	// Alive returns the custom resources that are alive in the namespace, oldest first, or ErrUnknown.
	Alive func(wire, namespace string) ([]client.Object, error)
	// Report is told what became of the entries of one custom resource in one object, only when that changed; no
	// outcomes mean that nothing is left to tell. It must be cheap and must not call back.
	Report func(owner string, target plan.Key, outcomes []Outcome)
	// Wrote is told of every write that succeeded: create, update or delete; optional.
	Wrote func(target plan.Key, verb string)
	// Clock is the clock that conflicts are counted by; optional.
	Clock clock.PassiveClock
	Log   logr.Logger
}

// Reconciler keeps the entries of one wire. It is keyed on the object that is edited, and one key is never reconciled
// twice at the same time.
type Reconciler struct {
	wire     Wire
	deps     Deps
	selector labels.Selector

	mu    sync.Mutex
	memos map[types.NamespacedName]*memo
}

// NewReconciler returns the reconciler of a wire.
func NewReconciler(wire Wire, deps Deps) *Reconciler {
	if deps.Clock == nil {
		deps.Clock = clock.RealClock{}
	}
	selector, err := labels.Parse(wire.LabelSelector)
	if err != nil {
		selector = labels.Everything()
	}
	return &Reconciler{wire: wire, deps: deps, selector: selector, memos: map[types.NamespacedName]*memo{}}
}

// Reconcile makes the object hold exactly the entries that the custom resources alive now want. In the steady state it
// neither reads nor writes the cluster. An error is transient; a duration asks to be called again then.
func (r *Reconciler) Reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	m := r.memo(key)
	defer r.prune(key, m)
	gvr, served := r.deps.Resource(r.wire.GVK)
	if !served {
		r.report(key, m, nil)
		return 0, nil
	}
	alive, err := r.deps.Alive(r.wire.Name, key.Namespace)
	if errors.Is(err, ErrUnknown) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("find the custom resources that wire %s: %w", r.keyOf(key), err)
	}
	api := r.deps.Client.Resource(gvr).Namespace(key.Namespace)
	target := r.deps.Source.Target(r.wire.Name, key.Namespace, key.Name)
	if target == nil {
		if !r.deps.Source.TargetsSynced(r.wire.Name) {
			return syncRetry, nil
		}
		return r.absent(ctx, api, key, m, alive)
	}
	if target.GetDeletionTimestamp() != nil {
		r.report(key, m, nil)
		return 0, nil
	}
	d := decide(&r.wire, target, alive)
	m.wired = len(d.recorded.Entries) > 0
	if !d.needed() {
		r.report(key, m, d.outcomes)
		return 0, nil
	}
	if pause := r.paused(key, m, target, &d); pause > 0 {
		return pause, nil
	}
	live, err := api.Get(ctx, key.Name, metav1.GetOptions{})
	if err != nil {
		return r.failed(key, m, &d, "read", err)
	}
	return r.edit(ctx, api, key, m, live, alive)
}

// paused returns how long a write waits, which somebody else takes back each time or the API server refused, and reports why.
func (r *Reconciler) paused(key types.NamespacedName, m *memo, target *unstructured.Unstructured, d *decision) time.Duration {
	now := r.deps.Clock.Now()
	if pause := m.conflictPause(now, d.entries); pause > 0 {
		r.report(key, m, m.asCeded(d.outcomes))
		return pause
	}
	pause := m.refusedPause(now, target, d.entries)
	if pause > 0 {
		r.report(key, m, refused(d.outcomes, m.refused))
	}
	return pause
}

// edit decides once more on the live object and writes it, guarded by its resourceVersion (invariant 7).
func (r *Reconciler) edit(ctx context.Context, api dynamic.ResourceInterface, key types.NamespacedName, m *memo,
	live *unstructured.Unstructured, alive []client.Object,
) (time.Duration, error) {
	if live.GetDeletionTimestamp() != nil {
		r.report(key, m, nil)
		return 0, nil
	}
	if !r.selector.Matches(labels.Set(live.GetLabels())) {
		// Without the label the object is no target any more, and this is the last chance to take our entries out.
		alive = nil
	}
	d := decide(&r.wire, live, alive)
	if !d.needed() {
		r.remember(m, live, d.entries)
		r.report(key, m, d.outcomes)
		return 0, nil
	}
	out, remove, err := d.seal(&r.wire, live)
	if err != nil {
		return 0, err
	}
	if remove {
		return r.remove(ctx, api, key, m, live, &d)
	}
	written, err := api.Update(ctx, out, metav1.UpdateOptions{FieldManager: FieldManager})
	if err != nil {
		return r.failed(key, m, &d, "update", err)
	}
	m.count(r.deps.Clock.Now(), d.entries, rivalOf(live))
	if m.repairs.Paused() {
		r.deps.Log.Info("somebody else changes the entries back each time", "wire", r.wire.Name, "target", r.keyOf(key).String(), "by", m.rival)
	}
	r.wrote(key, m, "update", written, &d)
	return 0, nil
}

// remove deletes an object that MLKeeper created and nobody changed. Both preconditions are needed: the UID spares a
// replacement, the resourceVersion a change that came after the read.
func (r *Reconciler) remove(ctx context.Context, api dynamic.ResourceInterface, key types.NamespacedName, m *memo,
	live *unstructured.Unstructured, d *decision,
) (time.Duration, error) {
	uid, version := live.GetUID(), live.GetResourceVersion()
	err := api.Delete(ctx, key.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
	})
	if err != nil {
		return r.failed(key, m, d, "delete", err)
	}
	r.wrote(key, m, "delete", nil, d)
	return 0, nil
}

// absent handles an object that the cache does not hold. It is created where the wire says so and entries are wanted.
func (r *Reconciler) absent(ctx context.Context, api dynamic.ResourceInterface, key types.NamespacedName, m *memo,
	alive []client.Object,
) (time.Duration, error) {
	if m.wired {
		// The object may only have lost the label that it was selected by: one read tells.
		live, err := api.Get(ctx, key.Name, metav1.GetOptions{})
		if err == nil {
			return r.edit(ctx, api, key, m, live, alive)
		}
		if !apierrors.IsNotFound(err) {
			return 0, fmt.Errorf("read %s: %w", r.keyOf(key), err)
		}
	}
	m.wired = false
	if key.Name != r.wire.CreateName || r.wire.CreateName == "" {
		m.forget()
		r.report(key, m, nil)
		return 0, nil
	}
	d := decide(&r.wire, r.blank(key), alive)
	if d.edited == nil {
		m.forget()
		r.report(key, m, d.outcomes)
		return 0, nil
	}
	if pause := r.paused(key, m, nil, &d); pause > 0 {
		return pause, nil
	}
	return r.create(ctx, api, key, m, &d)
}

func (r *Reconciler) create(ctx context.Context, api dynamic.ResourceInterface, key types.NamespacedName, m *memo,
	d *decision,
) (time.Duration, error) {
	hash, err := contentHash(d.edited)
	if err != nil {
		return 0, err
	}
	if err := setRecord(d.edited, Record{Entries: d.entries, Created: hash}); err != nil {
		return 0, err
	}
	written, err := api.Create(ctx, d.edited, metav1.CreateOptions{FieldManager: FieldManager})
	if err != nil {
		return r.failed(key, m, d, "create", err)
	}
	m.count(r.deps.Clock.Now(), d.entries, "")
	r.wrote(key, m, "create", written, d)
	return 0, nil
}

// blank is the object that an absent one is created from.
func (r *Reconciler) blank(key types.NamespacedName) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(r.wire.GVK)
	u.SetNamespace(key.Namespace)
	u.SetName(key.Name)
	return u
}

// failed sorts the errors of reads and writes: a lost race is tried again at once, an object or a namespace that goes
// is left, and everything else is reported and retried with backoff, for it cannot be watched (invariant 15).
func (r *Reconciler) failed(key types.NamespacedName, m *memo, d *decision, verb string, err error) (time.Duration, error) {
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		now := r.deps.Clock.Now()
		return m.lost.Failed(conflictRetry, "", now).Sub(now), nil
	case apierrors.IsNotFound(err):
		m.wired, m.lost = false, backoff.Retry{}
		return 0, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		r.report(key, m, nil)
		return 0, nil
	}
	err = fmt.Errorf("%s %s: %w", verb, r.keyOf(key), err)
	m.refuse(r.deps.Clock.Now(), r.deps.Source.Target(r.wire.Name, key.Namespace, key.Name), d.entries, err)
	r.report(key, m, refused(d.outcomes, err))
	return 0, err
}

// wrote takes in a write that succeeded.
func (r *Reconciler) wrote(key types.NamespacedName, m *memo, verb string, written *unstructured.Unstructured, d *decision) {
	target := r.keyOf(key)
	r.deps.Log.Info("wiring changed", "wire", r.wire.Name, "target", target.String(), "verb", verb)
	m.wired, m.lost = false, backoff.Retry{}
	if written != nil {
		r.remember(m, written, d.entries)
	}
	if r.deps.Wrote != nil {
		r.deps.Wrote(target, verb)
	}
	r.report(key, m, d.outcomes)
}

// remember takes in what a live object holds. Without the label the object is no target, and the cache will never have it.
func (r *Reconciler) remember(m *memo, live *unstructured.Unstructured, entries []Entry) {
	m.wired = len(entries) > 0
	if r.selector.Matches(labels.Set(live.GetLabels())) {
		r.deps.Source.Wrote(r.wire.Name, live)
	}
}

// Forget drops what is remembered of objects that another manager edits from now on. None of them is being reconciled.
func (r *Reconciler) Forget(others func(types.NamespacedName) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.memos, func(key types.NamespacedName, _ *memo) bool { return others(key) })
}

func (r *Reconciler) keyOf(key types.NamespacedName) plan.Key {
	return plan.Key{GroupKind: r.wire.GVK.GroupKind(), Namespace: key.Namespace, Name: key.Name}
}
