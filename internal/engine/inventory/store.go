package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

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

// Key returns the identity of an Inventory of a name.
func Key(name string) plan.Key { return plan.Key{GroupKind: GVK.GroupKind(), Name: name} }

// Cache has the cached Inventories and children. Its reads include our own writes.
type Cache interface {
	Resource(gk schema.GroupKind, namespace, name string) (metav1.Object, bool)
	ListResources(gk schema.GroupKind, namespace string) []metav1.Object
	// IndexedResources returns the Inventories of an owner, by the index of OwnerUID.
	IndexedResources(gk schema.GroupKind, value string) []metav1.Object
	// WroteResource records the response of a write.
	WroteResource(gk schema.GroupKind, o metav1.Object)
	ResourceSynced(gk schema.GroupKind) bool
	Child(controller string, key plan.Key) (*observe.Object, bool)
	// ChildSynced says that the watch on a kind of children is complete, or that no version of the kind is served.
	ChildSynced(gk schema.GroupKind, controller string) bool
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
type Store struct{ Options }

// New returns a store.
func New(opts Options) *Store { return &Store{Options: opts} }

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

// Get returns an Inventory by its name.
func (s *Store) Get(name string) (*keeper.Inventory, bool) {
	o, _ := s.Cache.Resource(GVK.GroupKind(), "", name)
	inv, ok := o.(*keeper.Inventory)
	return inv, ok
}

// Complete reports whether all Inventories are cached. Whoever concludes from one that is not seen asks before he looks for it.
func (s *Store) Complete() bool { return s.Cache.ResourceSynced(GVK.GroupKind()) }

// Of returns the Inventories of one custom resource that are not being deleted, by stage and part.
func (s *Store) Of(ownerUID string) []*keeper.Inventory {
	var out []*keeper.Inventory
	for _, o := range s.Cache.IndexedResources(GVK.GroupKind(), ownerUID) {
		if inv, ok := o.(*keeper.Inventory); ok && inv.DeletionTimestamp == nil {
			out = append(out, inv)
		}
	}
	slices.SortFunc(out, func(a, b *keeper.Inventory) int {
		return cmp.Or(cmp.Compare(a.Spec.Stage, b.Spec.Stage), cmp.Compare(a.Spec.Part, b.Spec.Part), cmp.Compare(a.Name, b.Name))
	})
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

// remember records the answer of a write. An Inventory that was deleted while the answer was on its way fails the write, since the
// garbage collector would delete what it would own.
func (s *Store) remember(u *unstructured.Unstructured) (*keeper.Inventory, error) {
	name := u.GetName()
	s.Cache.WroteResource(GVK.GroupKind(), u)
	inv, ok := s.Get(name)
	if !ok {
		return nil, fmt.Errorf("the Inventory %s was deleted while it was written", name)
	}
	return inv, nil
}
