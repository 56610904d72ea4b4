// Package wiringtest is a cluster in memory for tests of wires: one kind of object, with resourceVersions, UIDs,
// preconditions and conflicts as the API server has them, counts of requests, and a cache that can be held back. The
// fake of client-go has no resourceVersions and so cannot show a lost race.
package wiringtest

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"mlkeeper.dev/internal/engine/mutation"
	"mlkeeper.dev/internal/engine/wiring"
)

// Cluster holds the objects of one wire's kind.
type Cluster struct {
	wire wiring.Wire

	mu      sync.Mutex
	version int
	objects map[types.NamespacedName]*unstructured.Unstructured
	cached  map[types.NamespacedName]*unstructured.Unstructured
	// synced is the version that the cache has reached.
	synced int
	held   bool
	writes *mutation.Cache

	// Reads and Writes count the requests, refused ones included.
	Reads, Writes int
	// Fail, when set, is asked before every request; an error is the answer to it. It may change the cluster.
	Fail func(verb string, key types.NamespacedName) error
	// Unsynced makes the cache incomplete.
	Unsynced bool
	// PageSize is how many objects a list returns at most; 0 means the limit asked for.
	PageSize int
}

// New returns an empty cluster.
func New(wire wiring.Wire) *Cluster {
	c := &Cluster{
		wire: wire, objects: map[types.NamespacedName]*unstructured.Unstructured{},
		cached: map[types.NamespacedName]*unstructured.Unstructured{},
	}
	c.writes = mutation.New(clock.RealClock{}, store{c})
	return c
}

// store is the cache as the mutation cache reads it.
type store struct{ *Cluster }

// Get implements mutation.Store.
func (s store) Get(key types.NamespacedName) metav1.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.cached[key]; u != nil {
		return u
	}
	return nil
}

// LastSyncResourceVersion implements mutation.Store.
func (s store) LastSyncResourceVersion(string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strconv.Itoa(s.synced)
}

func keyOf(u *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}
}

// Put writes an object as its user does: unconditionally, keeping its UID when it exists.
func (c *Cluster) Put(u *unstructured.Unstructured) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u = u.DeepCopy()
	if old := c.objects[keyOf(u)]; old != nil {
		u.SetUID(old.GetUID())
	}
	c.store(u)
}

// Drop removes an object as its user does.
func (c *Cluster) Drop(namespace, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := types.NamespacedName{Namespace: namespace, Name: name}
	c.version++
	delete(c.objects, key)
	if !c.held {
		delete(c.cached, key)
		c.synced = c.version
	}
}

// Object returns a copy of the live object, or nil.
func (c *Cluster) Object(namespace, name string) *unstructured.Unstructured {
	c.mu.Lock()
	defer c.mu.Unlock()
	if u := c.objects[types.NamespacedName{Namespace: namespace, Name: name}]; u != nil {
		return u.DeepCopy()
	}
	return nil
}

// Hold stops the cache from following the cluster until Release.
func (c *Cluster) Hold() { c.mu.Lock(); c.held = true; c.mu.Unlock() }

// Release lets the cache catch up.
func (c *Cluster) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held, c.synced = false, c.version
	c.cached = map[types.NamespacedName]*unstructured.Unstructured{}
	for _, u := range c.objects {
		c.cache(u)
	}
}

// Target makes the cluster a wiring.Source.
func (c *Cluster) Target(_, namespace, name string) *unstructured.Unstructured {
	u, _ := c.writes.Get(types.NamespacedName{Namespace: namespace, Name: name}).(*unstructured.Unstructured)
	return u
}

// Wrote makes the cluster a wiring.Source.
func (c *Cluster) Wrote(_ string, u *unstructured.Unstructured) {
	if c.wire.Strip != nil {
		u = c.wire.Strip(u)
	}
	c.writes.Updated(u)
}

// TargetsSynced says whether the cache is complete; it is unless Unsynced is set.
func (c *Cluster) TargetsSynced(string) bool { return !c.Unsynced }

// ResourceOf maps every kind to the one resource of the cluster.
func (c *Cluster) ResourceOf(gvk schema.GroupVersionKind) (schema.GroupVersionResource, bool) {
	return gvk.GroupVersion().WithResource("targets"), true
}

// Resource makes the cluster a dynamic.Interface.
func (c *Cluster) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return &resource{cluster: c}
}

func (c *Cluster) store(u *unstructured.Unstructured) {
	c.version++
	if u.GetUID() == "" {
		u.SetUID(types.UID(fmt.Sprintf("uid-%d", c.version)))
	}
	u.SetResourceVersion(strconv.Itoa(c.version))
	c.objects[keyOf(u)] = u
	if !c.held {
		c.synced = c.version
		c.cache(u)
	}
}

func (c *Cluster) cache(u *unstructured.Unstructured) {
	selector, err := labels.Parse(c.wire.LabelSelector)
	if err != nil || !selector.Matches(labels.Set(u.GetLabels())) {
		delete(c.cached, keyOf(u))
		return
	}
	u = u.DeepCopy()
	if c.wire.Strip != nil {
		u = c.wire.Strip(u)
	}
	c.cached[keyOf(u)] = u
}

func (c *Cluster) fail(verb string, key types.NamespacedName) error {
	if c.Fail == nil {
		return nil
	}
	return c.Fail(verb, key)
}

// resource implements the verbs that wiring uses; any other panics on the nil interface.
type resource struct {
	dynamic.NamespaceableResourceInterface
	cluster   *Cluster
	namespace string
}

func (r *resource) Namespace(ns string) dynamic.ResourceInterface {
	return &resource{cluster: r.cluster, namespace: ns}
}

func (r *resource) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: r.namespace, Name: name}
}

var group = schema.GroupResource{Resource: "targets"}

func (r *resource) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	c := r.cluster
	c.Reads++
	if err := c.fail("get", r.key(name)); err != nil {
		return nil, err
	}
	if u := c.Object(r.namespace, name); u != nil {
		return u, nil
	}
	return nil, apierrors.NewNotFound(group, name)
}

func (r *resource) Create(_ context.Context, u *unstructured.Unstructured, _ metav1.CreateOptions, _ ...string) (*unstructured.Unstructured, error) {
	c := r.cluster
	c.Writes++
	if err := c.fail("create", keyOf(u)); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.objects[keyOf(u)] != nil {
		return nil, apierrors.NewAlreadyExists(group, u.GetName())
	}
	u = u.DeepCopy()
	c.store(u)
	return u.DeepCopy(), nil
}

func (r *resource) Update(_ context.Context, u *unstructured.Unstructured, _ metav1.UpdateOptions, _ ...string) (*unstructured.Unstructured, error) {
	c := r.cluster
	c.Writes++
	if err := c.fail("update", keyOf(u)); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.objects[keyOf(u)]
	if old == nil {
		return nil, apierrors.NewNotFound(group, u.GetName())
	}
	if u.GetResourceVersion() == "" || old.GetResourceVersion() != u.GetResourceVersion() || old.GetUID() != u.GetUID() {
		return nil, apierrors.NewConflict(group, u.GetName(), fmt.Errorf("the object has been modified"))
	}
	u = u.DeepCopy()
	c.store(u)
	return u.DeepCopy(), nil
}

func (r *resource) Delete(_ context.Context, name string, o metav1.DeleteOptions, _ ...string) error {
	c := r.cluster
	c.Writes++
	if err := c.fail("delete", r.key(name)); err != nil {
		return err
	}
	old := c.Object(r.namespace, name)
	if old == nil {
		return apierrors.NewNotFound(group, name)
	}
	p := o.Preconditions
	if p == nil || p.UID == nil || *p.UID != old.GetUID() || p.ResourceVersion == nil || *p.ResourceVersion != old.GetResourceVersion() {
		return apierrors.NewConflict(group, name, fmt.Errorf("a precondition failed or is missing"))
	}
	c.Drop(r.namespace, name)
	return nil
}

func (r *resource) List(_ context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	c := r.cluster
	c.Reads++
	if err := c.fail("list", r.key("")); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	selector, err := labels.Parse(o.LabelSelector)
	if err != nil {
		return nil, err
	}
	var names []string
	for key, u := range c.objects {
		if selector.Matches(labels.Set(u.GetLabels())) {
			names = append(names, key.String())
		}
	}
	sort.Strings(names)
	from := sort.SearchStrings(names, o.Continue)
	limit := int(o.Limit)
	if c.PageSize > 0 {
		limit = c.PageSize
	}
	out := &unstructured.UnstructuredList{}
	for i := from; i < len(names); i++ {
		if len(out.Items) == limit {
			out.SetContinue(names[i])
			break
		}
		for key, u := range c.objects {
			if key.String() == names[i] {
				out.Items = append(out.Items, *u.DeepCopy())
			}
		}
	}
	return out, nil
}
