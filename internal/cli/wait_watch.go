package cli

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
)

// watches hold one custom resource, its Inventories and its objects in memory, and tell when one of them changes.
type watches struct {
	*cluster
	subject *subject
	// changed has one element while something changed that nobody looked at yet.
	changed chan struct{}
	// failed gets why the custom resource itself cannot be watched.
	failed chan error

	mu      sync.Mutex
	running sync.WaitGroup
	// custom is the watch on the custom resource, inventories that on its Inventories; nil where they are not served.
	custom, inventories *informer
	// children are by kind and namespace.
	children map[childWatch]*informer
	// refused says why a watch is not allowed, as long as that is so.
	refused map[*informer]string
	// learnt is when it was asked last what the cluster serves, later says that it will be asked again.
	learnt time.Time
	later  bool
}

// childWatch is one watch on objects of the custom resource.
type childWatch struct {
	schema.GroupKind
	namespace string
}

// informer is one watch with what it holds.
type informer struct {
	cache.SharedIndexInformer
	gvk schema.GroupVersionKind
}

func newWatches(c *cluster, s *subject) *watches {
	return &watches{
		cluster: c, subject: s, changed: make(chan struct{}, 1), failed: make(chan error, 1),
		children: map[childWatch]*informer{}, refused: map[*informer]string{},
	}
}

// start begins to watch the custom resource, its Inventories, and the kinds that its controller names.
func (w *watches) start(ctx context.Context) error {
	// What client-go logs about watches that are refused is told by us.
	ctx = logr.NewContext(ctx, logr.Discard())
	only := fields.OneTermEqualSelector("metadata.name", w.subject.name).String()
	custom := dynamicinformer.NewFilteredDynamicInformer(w.dynamic, w.subject.mapping.Resource, w.subject.namespace, 0,
		cache.Indexers{}, func(o *metav1.ListOptions) { o.FieldSelector = only }).Informer()
	w.custom = &informer{custom, w.subject.controller.GVK()}
	if err := w.run(ctx, w.custom, func(err error) {
		select {
		case w.failed <- fmt.Errorf("watch %s: %w; request the rights get, list and watch", w.subject.key(), err):
		default:
		}
	}); err != nil {
		return err
	}
	mapping, err := w.lookup(inventoryKind)
	if err != nil {
		return err
	}
	if mapping != nil {
		w.inventories = &informer{dynamicinformer.NewFilteredDynamicInformer(w.dynamic, mapping.Resource, "", 0,
			cache.Indexers{}, w.ofStack).Informer(), inventoryKind}
		if err := w.run(ctx, w.inventories, w.refuses(w.inventories)); err != nil {
			return err
		}
	}
	_, err = w.cover(ctx, nil)
	return err
}

// ofStack restricts a watch to the objects of the custom resource.
func (w *watches) ofStack(o *metav1.ListOptions) {
	o.LabelSelector = keeper.StackLabel + "=" + w.subject.stack().Hash()
}

// cover watches every kind that the controller or the inventories name and that is not watched yet, and says whether there was one.
func (w *watches) cover(ctx context.Context, entries []keeper.InventoryEntry) (more bool, err error) {
	ctx = logr.NewContext(ctx, logr.Discard())
	w.learnKinds(entries)
	for _, gvk := range childKinds(w.subject.controller, entries) {
		mapping, err := w.lookup(gvk)
		if err != nil {
			return more, err
		}
		if mapping == nil {
			continue
		}
		for _, namespace := range namespacesOf(w.subject, mapping, entries) {
			key := childWatch{mapping.GroupVersionKind.GroupKind(), namespace}
			w.mu.Lock()
			_, watched := w.children[key]
			w.mu.Unlock()
			if watched {
				continue
			}
			child := &informer{w.childInformer(mapping, namespace), mapping.GroupVersionKind}
			w.mu.Lock()
			w.children[key] = child
			w.mu.Unlock()
			more = true
			if err := w.run(ctx, child, w.refuses(child)); err != nil {
				return more, err
			}
		}
	}
	return more, nil
}

// childInformer watches whole objects where the health needs them, and metadata for the rest, so that the data of
// Secrets and ConfigMaps is never read.
func (w *watches) childInformer(mapping *meta.RESTMapping, namespace string) cache.SharedIndexInformer {
	if health.NeedsStatus(mapping.GroupVersionKind.GroupKind()) {
		return dynamicinformer.NewFilteredDynamicInformer(w.dynamic, mapping.Resource, namespace, 0, cache.Indexers{},
			w.ofStack).Informer()
	}
	return metadatainformer.NewFilteredMetadataInformer(w.metadata, mapping.Resource, namespace, 0, cache.Indexers{},
		w.ofStack).Informer()
}

// refuses remembers that something may not be watched; the waiting goes on without it.
func (w *watches) refuses(i *informer) func(error) {
	return func(err error) {
		w.mu.Lock()
		w.refused[i] = err.Error()
		w.mu.Unlock()
		w.wake()
	}
}

// run starts a watch. A failure that passes is retried by the watch itself; one of rights is told.
func (w *watches) run(ctx context.Context, i *informer, refused func(error)) error {
	if err := i.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			refused(err)
		}
	}); err != nil {
		return err
	}
	seen := func() {
		w.mu.Lock()
		delete(w.refused, i)
		w.mu.Unlock()
		w.wake()
	}
	wake := func(any) { seen() }
	if _, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: wake, UpdateFunc: func(any, any) { seen() }, DeleteFunc: wake,
	}); err != nil {
		return err
	}
	w.running.Go(func() { i.RunWithContext(ctx) })
	w.running.Go(func() {
		// An empty list is news as well.
		if cache.WaitForCacheSync(ctx.Done(), i.HasSynced) {
			seen()
		}
	})
	return nil
}

func (w *watches) wake() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// wait returns when every watch has ended.
func (w *watches) wait() { w.running.Wait() }

// snapshot is what the watches hold at one moment.
type snapshot struct {
	// live is nil while the custom resource does not exist.
	live     *unstructured.Unstructured
	status   StackStatus
	expected []keeper.InventoryEntry
	// whole are the objects as they were read.
	whole []*unstructured.Unstructured
	// complete says that every watch has listed what there is.
	complete bool
	warnings []string
}

// snapshot says what there is; synced is false before the custom resource was listed.
func (w *watches) snapshot() (out snapshot, synced bool) {
	if !w.custom.HasSynced() {
		return out, false
	}
	for _, u := range w.custom.objects() {
		if u.GetName() == w.subject.name {
			out.live = u
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &collector{cluster: w.cluster, namespace: w.subject.namespace, only: w.subject}
	inventories := byOwner{}
	if w.inventories != nil {
		inventories = c.decodeInventories(w.inventories.objects())
	}
	children := found{
		objects: map[string][]*unstructured.Unstructured{},
		unread:  map[schema.GroupKind]bool{}, unserved: map[schema.GroupKind]bool{},
	}
	out.complete = true
	hash := w.subject.stack().Hash()
	for key, child := range w.children {
		if !child.HasSynced() {
			children.unread[key.GroupKind] = true
			_, refused := w.refused[child]
			out.complete = out.complete && refused
			continue
		}
		children.objects[hash] = append(children.objects[hash], child.objects()...)
	}
	refused := map[schema.GroupKind]string{}
	for i, why := range w.refused {
		refused[i.gvk.GroupKind()] = why
	}
	for _, gk := range sortedKinds(refused) {
		c.warn("%s may not be watched, so their changes are not reported: %s", gk.Kind, refused[gk])
	}
	subject := out.live
	if subject == nil {
		subject = w.subject.gone()
	}
	stack := stackOf(w.subject.controller, subject)
	out.expected = c.expected(subject, stack, inventories.listed())
	w.unwatched(&children, out.expected)
	out.status = c.stack(w.subject.controller, subject, children, out.expected)
	out.whole = children.objects[hash]
	out.warnings = c.warnings
	return out, true
}

// unwatched marks the kinds that are recorded and not watched yet: nobody knows what there is of them.
func (w *watches) unwatched(children *found, expected []keeper.InventoryEntry) {
	for _, e := range expected {
		gk := plan.KeyOfEntry(e).GroupKind
		watched := false
		for key := range w.children {
			watched = watched || key.GroupKind == gk
		}
		if mapping, err := w.lookup(gk.WithVersion(e.Version)); err == nil && mapping == nil {
			children.unserved[gk] = true
		} else if !watched {
			children.unread[gk] = true
		}
	}
}

// gone is what is known of a custom resource that does not exist: its name.
func (s *subject) gone() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(s.controller.GVK())
	u.SetNamespace(s.namespace)
	u.SetName(s.name)
	return u
}

func sortedKinds(m map[schema.GroupKind]string) []schema.GroupKind {
	out := make([]schema.GroupKind, 0, len(m))
	for gk := range m {
		out = append(out, gk)
	}
	slices.SortFunc(out, func(a, b schema.GroupKind) int {
		return slices.Compare([]string{a.Kind, a.Group}, []string{b.Kind, b.Group})
	})
	return out
}

// objects are what a watch holds; of a watch on metadata, with the kind that its answers leave out.
func (i *informer) objects() []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, item := range i.GetStore().List() {
		switch o := item.(type) {
		case *unstructured.Unstructured:
			out = append(out, o)
		case *metav1.PartialObjectMetadata:
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
			if err != nil {
				continue
			}
			u := &unstructured.Unstructured{Object: content}
			u.SetGroupVersionKind(i.gvk)
			out = append(out, u)
		}
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int {
		return slices.Compare([]string{a.GetNamespace(), a.GetName()}, []string{b.GetNamespace(), b.GetName()})
	})
	return out
}
