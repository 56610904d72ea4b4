package engine

import (
	"context"
	"sort"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/watch"
)

// reader gives one pass its reads, and remembers which objects of others the custom resource refers to now.
type reader struct {
	engine *Engine
	room   string
	gk     schema.GroupKind
	cr     client.Object
	holder watch.Holder
	used   []watch.Ref
}

// contents keeps the live reads of referenced objects until their metadata changes (law 13).
type contents struct {
	mu sync.Mutex
	by map[watch.Ref]*unstructured.Unstructured
}

// Referenced implements room.Reader.
func (r *reader) Referenced(
	ctx context.Context, gvk schema.GroupVersionKind, namespace, name string,
) (*unstructured.Unstructured, error) {
	ref := watch.Ref{GVK: gvk, Namespace: namespace, Name: name}
	r.used = append(r.used, ref)
	meta, known, err := r.engine.hub.Reference(ctx, r.holder, gvk, namespace, name)
	if apierrors.IsForbidden(err) {
		return nil, plan.Problem{
			Class: plan.Blocked, Reason: "Forbidden", Field: gvk.Kind, Value: name,
			Message: "MLKeeper may not watch " + gvk.Kind + " in namespace " + namespace,
			Remedy:  "grant get, list and watch on it to MLKeeper's service account",
		}
	}
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, plan.Problem{
			Class: plan.Waiting, Reason: decide.ReasonNotSynced,
			Message: "the watch on " + gvk.Kind + " " + name + " is being opened", Remedy: "nothing to do",
		}
	}
	if meta == nil {
		r.engine.contents.drop(ref)
		return nil, nil
	}
	if kept := r.engine.contents.get(ref, meta.UID, meta.ResourceVersion); kept != nil {
		return kept, nil
	}
	mapping, ok := r.engine.catalog.Lookup(gvk)
	if !ok {
		return nil, nil
	}
	live, err := r.engine.client.Resource(mapping.Resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	live.SetManagedFields(nil)
	r.engine.contents.put(ref, live)
	return live, nil
}

// Child implements room.Reader.
func (r *reader) Child(gvk schema.GroupVersionKind, namespace, name string) *observe.Object {
	o, _ := r.engine.hub.Child(r.room, plan.Key{GroupKind: gvk.GroupKind(), Namespace: namespace, Name: name})
	return o
}

// Serves implements room.Reader.
func (r *reader) Serves(gvk schema.GroupVersionKind) bool {
	_, ok := r.engine.catalog.Lookup(gvk)
	return ok
}

// Siblings implements room.Reader.
func (r *reader) Siblings() []client.Object {
	all := aliveObjects(r.engine.hub.ListResources(r.gk, r.cr.GetNamespace()))
	out := all[:0]
	for _, o := range all {
		if o.GetUID() != r.cr.GetUID() {
			out = append(out, o)
		}
	}
	return out
}

// aliveObjects keeps what decodes and is not being deleted, oldest first (creationTimestamp, then UID).
func aliveObjects(all []metav1.Object) []client.Object {
	var out []client.Object
	for _, o := range all {
		if _, bad := o.(*watch.Undecodable); bad {
			continue
		}
		if c, ok := o.(client.Object); ok && o.GetDeletionTimestamp() == nil {
			out = append(out, c)
		}
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i].GetCreationTimestamp(), out[j].GetCreationTimestamp()
		if !a.Equal(&b) {
			return a.Before(&b)
		}
		return out[i].GetUID() < out[j].GetUID()
	})
	return out
}

// Targets implements room.Reader.
func (r *reader) Targets(wire, namespace string) []*unstructured.Unstructured {
	return r.engine.hub.ListTargets(wire, namespace)
}

// Now implements room.Reader.
func (r *reader) Now() time.Time { return r.engine.Clock.Now() }

// done releases the references that this pass no longer used, compared with those of the pass before.
func (r *reader) done(before []watch.Ref) []watch.Ref {
	kept := map[watch.Ref]bool{}
	for _, ref := range r.used {
		kept[ref] = true
	}
	for _, ref := range before {
		if !kept[ref] {
			r.engine.contents.drop(ref)
		}
	}
	r.engine.hub.Release(r.holder, r.used...)
	return r.used
}

func (c *contents) get(ref watch.Ref, uid types.UID, version string) *unstructured.Unstructured {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.by[ref]
	if u == nil || u.GetUID() != uid || u.GetResourceVersion() != version &&
		!observe.NewerVersion(u.GetResourceVersion(), version) {
		return nil
	}
	return u
}

func (c *contents) put(ref watch.Ref, u *unstructured.Unstructured) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[watch.Ref]*unstructured.Unstructured{}
	}
	c.by[ref] = u
}

func (c *contents) drop(ref watch.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.by, ref)
}
