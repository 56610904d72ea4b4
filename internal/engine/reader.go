package engine

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/watch"
)

// reader gives one pass its reads, and remembers which objects of others the custom resource refers to now.
type reader struct {
	engine     *Engine
	controller string
	gk         schema.GroupKind
	cr         client.Object
	referrer   watch.Referrer
	stack      plan.Stack
	// made says of an object whether it was recorded as a child of the custom resource.
	made func(plan.Key) bool
	// watchGroup is told of the groups whose APIs the controller asks for by version.
	asks func(group string)
	used []watch.Ref
	// read are the objects whose content this pass had.
	read []watch.Ref
	// jobs are the background jobs of this pass, due when the first of them runs again.
	jobs []string
	due  time.Time
	// unanswered says that one of them runs and has no result yet, panicked that the last run of one panicked.
	unanswered, panicked bool
}

// Bounds of the bytes of what is kept of objects that were read; what had to go is read again.
const (
	// maxSpare is how much is kept although those who asked for it are Ready: enough that a small cluster never reads
	// again, and nothing to speak of in a large one.
	maxSpare = 2 << 20
	// maxContents is how much is kept at all.
	maxContents = 32 << 20
)

// contents keeps the live reads of referenced objects until their metadata changes (invariant 13).
type contents struct {
	mu    sync.Mutex
	by    map[watch.Ref]content
	bytes int
}

// content is one object and about how many bytes it takes.
type content struct {
	object *unstructured.Unstructured
	bytes  int
}

// Referenced implements controller.Reader.
func (r *reader) Referenced(
	ctx context.Context, gvk schema.GroupVersionKind, namespace, name string,
) (*unstructured.Unstructured, error) {
	ref := watch.Ref{GVK: gvk, Namespace: namespace, Name: name}
	// What the custom resource made itself is watched already, as a child.
	if own := r.Child(gvk, namespace, name); own != nil && own.Annotations[keeper.OwnerAnnotation] == r.stack.ID() {
		return r.content(ctx, ref, &own.ObjectMeta)
	} else if r.made(plan.Key{GroupKind: gvk.GroupKind(), Namespace: namespace, Name: name}) {
		// It has gone, or has lost the label that children are watched by.
		return r.live(ctx, ref)
	}
	r.used = append(r.used, ref)
	meta, known, err := r.engine.informers.Reference(ctx, r.referrer, gvk, namespace, name)
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
		return nil, unwatched(gvk, name, r.engine.informers.ReferenceWatchError(gvk, namespace, name))
	}
	if meta == nil {
		r.engine.contents.drop(ref)
		return nil, nil
	}
	return r.content(ctx, ref, &meta.ObjectMeta)
}

// unwatched says that it is not known yet whether an object exists, and why the watch on it cannot be opened, if that is so.
func unwatched(gvk schema.GroupVersionKind, name string, failure error) plan.Problem {
	out := plan.Problem{
		Class: plan.Waiting, Reason: decide.ReasonNotSynced,
		Message: "the watch on " + gvk.Kind + " " + name + " is being opened", Remedy: "nothing to do",
	}
	if failure == nil {
		return out
	}
	resource := strings.ToLower(gvk.Kind)
	if gvk.Group != "" {
		resource += "." + gvk.Version + "." + gvk.Group
	}
	out.Message = fmt.Sprintf("%s %s cannot be watched: %v", gvk.Kind, name, failure)
	out.Remedy = fmt.Sprintf("look whether `kubectl get %s` fails too, such as for a conversion webhook or an aggregated API server that "+
		"does not answer; it is tried again by itself", resource)
	return out
}

// content returns an object that exists, read live only when its metadata changed.
func (r *reader) content(ctx context.Context, ref watch.Ref, meta *metav1.ObjectMeta) (*unstructured.Unstructured, error) {
	r.read = append(r.read, ref)
	if kept := r.engine.contents.get(ref, meta.UID, meta.ResourceVersion); kept != nil {
		return kept, nil
	}
	live, err := r.live(ctx, ref)
	if err != nil || live == nil {
		return nil, err
	}
	r.engine.contents.put(ref, live)
	return live, nil
}

// live reads an object; nil where it is absent.
func (r *reader) live(ctx context.Context, ref watch.Ref) (*unstructured.Unstructured, error) {
	mapping, ok := r.engine.catalog.Lookup(ref.GVK)
	if !ok {
		return nil, nil
	}
	live, err := r.engine.client.Resource(mapping.Resource).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	live.SetManagedFields(nil)
	return live, nil
}

// Child implements controller.Reader.
func (r *reader) Child(gvk schema.GroupVersionKind, namespace, name string) *observe.Object {
	o, _ := r.engine.informers.Child(r.controller, plan.Key{GroupKind: gvk.GroupKind(), Namespace: namespace, Name: name})
	return o
}

// Serves implements controller.Reader.
func (r *reader) Serves(gvk schema.GroupVersionKind) bool {
	r.asks(gvk.Group) // The kind may be none of those that the controller declares.
	return r.engine.Serves(gvk)
}

// Namespaced implements controller.Reader.
func (r *reader) Namespaced(gvk schema.GroupVersionKind) (namespaced, served bool) {
	mapping, ok := r.engine.catalog.Lookup(gvk)
	return mapping.Namespaced, ok
}

// ServesVersion implements controller.Reader.
func (r *reader) ServesVersion(gv schema.GroupVersion) bool {
	r.asks(gv.Group)
	return r.engine.catalog.ServesVersion(gv)
}

// KubernetesVersion implements controller.Reader.
func (r *reader) KubernetesVersion() string { return r.engine.catalog.KubernetesVersion() }

// Siblings implements controller.Reader.
func (r *reader) Siblings() []client.Object {
	all := aliveObjects(r.engine.informers.ListResources(r.gk, r.cr.GetNamespace()))
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

// Targets implements controller.Reader.
func (r *reader) Targets(wire, namespace string) []*unstructured.Unstructured {
	return r.engine.informers.ListTargets(wire, namespace)
}

// Probe implements controller.Reader.
func (r *reader) Probe(name string, every time.Duration, question controller.Question) any {
	job := r.engine.jobs.Get(r.referrer, name, every, func(ctx context.Context) any { return question(ctx, r.engine) })
	r.jobs = append(r.jobs, name)
	r.unanswered = r.unanswered || job.Running && job.Result == nil
	r.panicked = r.panicked || job.Panicked
	if !job.Due.IsZero() && (r.due.IsZero() || job.Due.Before(r.due)) {
		r.due = job.Due
	}
	return job.Result
}

// List implements controller.Live.
func (e *Engine) List(
	ctx context.Context, gvk schema.GroupVersionKind, namespace, selector string, limit int64,
) ([]unstructured.Unstructured, error) {
	mapping, ok := e.catalog.Lookup(gvk)
	if !ok {
		return nil, fmt.Errorf("the cluster does not serve %s", gvk)
	}
	list, err := e.client.Resource(mapping.Resource).Namespace(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: selector, Limit: limit, ResourceVersion: "0",
	})
	if err != nil {
		return nil, fmt.Errorf("list %s in %s: %w", gvk.Kind, namespace, err)
	}
	return list.Items, nil
}

// Get implements controller.Live.
func (e *Engine) Get(
	ctx context.Context, user string, gvk schema.GroupVersionKind, namespace, name string,
) (*unstructured.Unstructured, error) {
	if _, ok := e.catalog.Lookup(gvk); !ok {
		return nil, nil
	}
	resource, err := e.actor.ResourceAs(user, gvk, namespace)
	if err != nil {
		return nil, err
	}
	live, err := resource.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", gvk.Kind, name, err)
	}
	live.SetManagedFields(nil)
	return live, nil
}

// Now implements controller.Reader.
func (r *reader) Now() time.Time { return r.engine.Clock.Now() }

// done releases the references that this pass no longer used, and the contents that it no longer read, compared with
// those of the pass before. It returns what it read.
func (r *reader) done(before []watch.Ref) []watch.Ref {
	kept := map[watch.Ref]bool{}
	for _, ref := range r.read {
		kept[ref] = true
	}
	for _, ref := range before {
		if !kept[ref] {
			r.engine.contents.drop(ref)
		}
	}
	r.engine.informers.ReleaseReferences(r.referrer, r.used...)
	r.engine.jobs.Keep(r.referrer, r.jobs...)
	return r.read
}

func (c *contents) get(ref watch.Ref, uid types.UID, version string) *unstructured.Unstructured {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.by[ref].object
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
		c.by = map[watch.Ref]content{}
	}
	c.dropLocked(ref)
	one := content{object: u, bytes: sizeOf(u.Object)}
	for other := range c.by {
		if c.bytes+one.bytes <= maxContents {
			break
		}
		c.dropLocked(other)
	}
	c.by[ref] = one
	c.bytes += one.bytes
}

// shed drops what a custom resource that is Ready will hardly ask for again, where there is much.
func (c *contents) shed(refs []watch.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ref := range refs {
		if c.bytes <= maxSpare {
			return
		}
		c.dropLocked(ref)
	}
}

func (c *contents) drop(ref watch.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(ref)
}

func (c *contents) dropLocked(ref watch.Ref) {
	c.bytes -= c.by[ref].bytes
	delete(c.by, ref)
}

// sizeOf estimates how many bytes a decoded value takes.
func sizeOf(value any) int {
	const word = 16 // A string, a slice or an interface is at least two words.
	switch v := value.(type) {
	case map[string]any:
		n := 3 * word
		for key, item := range v {
			n += 2*word + len(key) + sizeOf(item)
		}
		return n
	case []any:
		n := 2 * word
		for _, item := range v {
			n += word + sizeOf(item)
		}
		return n
	case string:
		return word + len(v)
	}
	return word
}
