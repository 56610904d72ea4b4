package inventory

import (
	"errors"
	"fmt"
	"sort"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

// GVK is the kind of the Inventories.
var GVK = keeper.GroupVersion.WithKind("Inventory")

// Cache has the cached Inventories and children.
type Cache interface {
	Resource(gk schema.GroupKind, namespace, name string) (metav1.Object, bool)
	ListResources(gk schema.GroupKind, namespace string) []metav1.Object
	// IndexedResources returns the Inventories of an owner, by the index of OwnerUID.
	IndexedResources(gk schema.GroupKind, value string) []metav1.Object
	LastSyncResourceVersion(gk schema.GroupKind, namespace string) string
	ResourceSynced(gk schema.GroupKind) bool
	Child(controller string, key plan.Key) (*observe.Object, bool)
}

// Catalog knows which APIs the cluster serves.
type Catalog interface {
	Lookup(gvk schema.GroupVersionKind) (catalog.Mapping, bool)
}

// Options are what a Store works with.
type Options struct {
	Client  dynamic.Interface
	Catalog Catalog
	Cache   Cache
	// Count is called for every acknowledged write, for metrics.
	Count func(key plan.Key, verb decide.Verb, reason string)
}

// Store reads and writes the Inventories of all controllers.
type Store struct {
	Options

	mu sync.Mutex
	// written holds Inventories as our last write left them (law 12), by name.
	written map[string]*keeper.Inventory
}

// New returns a store that remembers no writes.
func New(opts Options) *Store {
	return &Store{Options: opts, written: map[string]*keeper.Inventory{}}
}

// Decode returns a watched Inventory in its Go type.
func Decode(u *unstructured.Unstructured) (metav1.Object, error) {
	inv := &keeper.Inventory{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, inv)
	return inv, err
}

// OwnerUID returns the UID of the custom resource that an Inventory is of.
func OwnerUID(o metav1.Object) string {
	if inv, ok := o.(*keeper.Inventory); ok {
		return string(inv.Spec.Owner.UID)
	}
	return ""
}

// Observe drops the write that an event of an Inventory shows. deleted says that the event is a deletion.
func (s *Store) Observe(inv *keeper.Inventory, deleted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mine, ok := s.written[inv.Name]; ok && mine.UID == inv.UID && (deleted || mine.ResourceVersion == inv.ResourceVersion) {
		delete(s.written, inv.Name)
	}
}

// Get returns an Inventory as cached, or as our own later write left it.
func (s *Store) Get(name string) (*keeper.Inventory, bool) {
	// In this order: a write that was dropped already is in the cache that is read after it.
	s.mu.Lock()
	mine, written := s.written[name]
	s.mu.Unlock()
	inv, version := s.cached(name)
	if written && observe.NewerVersion(mine.ResourceVersion, version) {
		return mine, true
	}
	if written {
		s.mu.Lock()
		if s.written[name] == mine {
			delete(s.written, name)
		}
		s.mu.Unlock()
	}
	return inv, inv != nil
}

// cached returns an Inventory of the cache, nil where it has none, and the version that the cache has synced to.
func (s *Store) cached(name string) (inv *keeper.Inventory, version string) {
	gk := GVK.GroupKind()
	// In this order: what the cache lacks after it had reached a version was deleted by that version.
	version = s.Cache.LastSyncResourceVersion(gk, "")
	o, ok := s.Cache.Resource(gk, "", name)
	if !ok {
		return nil, version
	}
	inv, _ = o.(*keeper.Inventory)
	return inv, o.GetResourceVersion()
}

// Of returns the Inventories of one custom resource that are not being deleted, by stage.
func (s *Store) Of(ownerUID string) []*keeper.Inventory {
	names := map[string]bool{}
	// In this order: a write that was dropped already is in the cache.
	s.mu.Lock()
	for name, inv := range s.written {
		if string(inv.Spec.Owner.UID) == ownerUID {
			names[name] = true
		}
	}
	s.mu.Unlock()
	for _, o := range s.Cache.IndexedResources(GVK.GroupKind(), ownerUID) {
		names[o.GetName()] = true
	}
	var out []*keeper.Inventory
	for name := range names {
		if inv, ok := s.Get(name); ok && inv.DeletionTimestamp == nil {
			out = append(out, inv)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Spec.Stage < out[j].Spec.Stage })
	return out
}

// List returns the cached Inventories of all custom resources.
func (s *Store) List() []*keeper.Inventory {
	var out []*keeper.Inventory
	for _, o := range s.Cache.ListResources(GVK.GroupKind(), "") {
		if inv, ok := o.(*keeper.Inventory); ok {
			out = append(out, inv)
		}
	}
	return out
}

// OwnerOf returns an Inventory as the owner of children.
func OwnerOf(inv *keeper.Inventory) plan.Owner {
	return plan.Owner{APIVersion: keeper.GroupVersion.String(), Kind: GVK.Kind, Name: inv.Name, UID: inv.UID}
}

func (s *Store) resource() (schema.GroupVersionResource, error) {
	mapping, ok := s.Catalog.Lookup(GVK)
	if !ok {
		return schema.GroupVersionResource{}, errors.New("the API of Inventory is not served")
	}
	return mapping.Resource, nil
}

// remember keeps the answer of a write until the cache has it. An Inventory that was deleted while the answer was on its way fails
// the write, since the garbage collector would delete what it would own.
func (s *Store) remember(u *unstructured.Unstructured) (*keeper.Inventory, error) {
	u.SetManagedFields(nil)
	inv := &keeper.Inventory{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, inv); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if cached, version := s.cached(inv.Name); cached == nil && !observe.NewerVersion(inv.ResourceVersion, version) {
		return nil, fmt.Errorf("the Inventory %s was deleted while it was written", inv.Name)
	}
	s.written[inv.Name] = inv
	return inv, nil
}

func (s *Store) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.written, name)
}
