// Package shard decides which custom resources are a manager's. It reads the cached Namespaces only, and writes nothing.
package shard

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/watch"
)

var namespaceGVK = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

// Namespaces is the part of the informer manager that a Shard needs.
type Namespaces interface {
	WatchResources(gvk schema.GroupVersionKind, decode func(*unstructured.Unstructured) (metav1.Object, error),
		notify watch.Notify, index func(metav1.Object) string)
	Resource(gk schema.GroupKind, namespace, name string) (metav1.Object, bool)
	ResourceSynced(gk schema.GroupKind) bool
}

// Shard has the custom resources in namespaces whose labels match, and the cluster-scoped ones whose own labels do. Sharding is by
// namespace only, so that each object of others has one writer (invariant 7).
type Shard struct {
	selector   labels.Selector
	only       []string
	namespaces Namespaces
}

// New makes the shard of a selector, nil for everything, and of a manager that watches only some namespaces, none for all. A selector
// declares the watch on Namespaces; onChange is called when the labels of one change.
func New(selector labels.Selector, only []string, namespaces Namespaces, onChange func(namespace string)) *Shard {
	s := &Shard{selector: selector, only: only, namespaces: namespaces}
	if selector == nil {
		return s
	}
	namespaces.WatchResources(namespaceGVK, reduceNamespace, func(old, now metav1.Object, _ bool) {
		switch {
		case now == nil:
			onChange(old.GetName())
		case old == nil || !labels.Equals(old.GetLabels(), now.GetLabels()):
			onChange(now.GetName())
		}
	}, nil)
	return s
}

func reduceNamespace(u *unstructured.Unstructured) (metav1.Object, error) {
	return &metav1.ObjectMeta{
		Name: u.GetName(), Labels: u.GetLabels(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(),
	}, nil
}

// Contains says whether a custom resource belongs to this shard. own are the labels of a cluster-scoped one.
func (s *Shard) Contains(namespace string, own map[string]string) bool {
	if s.selector == nil {
		return true
	}
	if namespace == "" {
		return s.selector.Matches(labels.Set(own))
	}
	ns, ok := s.namespaces.Resource(namespaceGVK.GroupKind(), "", namespace)
	return ok && s.selector.Matches(labels.Set(ns.GetLabels()))
}

// MayFinalize says whether this shard may finalize what a custom resource in the namespace left behind. Inventories are seen of all
// namespaces, also by a manager that watches few. Where the namespace is gone, so are the labels that would tell which shard had it,
// and every shard may.
func (s *Shard) MayFinalize(namespace string) bool {
	if len(s.only) > 0 && namespace != "" && !slices.Contains(s.only, namespace) {
		return false
	}
	if s.selector == nil || namespace == "" || s.Contains(namespace, nil) {
		return true
	}
	gk := namespaceGVK.GroupKind()
	_, exists := s.namespaces.Resource(gk, "", namespace)
	return !exists && s.namespaces.ResourceSynced(gk)
}
