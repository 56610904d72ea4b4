package engine

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var namespaceGVK = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

// shard decides which custom resources are this manager's: those in namespaces whose labels match, or cluster-scoped
// ones whose own labels do.
type shard struct {
	engine *Engine
}

func newShard(e *Engine) *shard {
	s := &shard{engine: e}
	if e.ShardSelector != nil {
		e.informers.WatchResources(namespaceGVK, reduceNamespace, func(old, now metav1.Object, _ bool) {
			if old != nil && now != nil && labels.Equals(old.GetLabels(), now.GetLabels()) {
				return
			}
			one := now
			if one == nil {
				one = old
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			for _, r := range e.controllers {
				r.onShardChange(one.GetName())
			}
		}, nil)
	}
	return s
}

func reduceNamespace(u *unstructured.Unstructured) (metav1.Object, error) {
	return &metav1.ObjectMeta{
		Name: u.GetName(), Labels: u.GetLabels(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(),
	}, nil
}

// mine says whether a custom resource belongs to this shard. own are the labels of a cluster-scoped one.
func (s *shard) mine(namespace string, own map[string]string) bool {
	selector := s.engine.ShardSelector
	if selector == nil {
		return true
	}
	if namespace == "" {
		return selector.Matches(labels.Set(own))
	}
	ns, ok := s.engine.informers.Resource(namespaceGVK.GroupKind(), "", namespace)
	return ok && selector.Matches(labels.Set(ns.GetLabels()))
}

// mayFinalize says whether this shard may finalize a deleted custom resource of the namespace. Inventories are seen of all
// namespaces, also by a manager that watches few. Where the namespace is gone, so are the labels that would tell whose it was,
// and every shard may.
func (s *shard) mayFinalize(namespace string) bool {
	if only := s.engine.Namespaces; len(only) > 0 && namespace != "" && !slices.Contains(only, namespace) {
		return false
	}
	if s.engine.ShardSelector == nil || namespace == "" || s.mine(namespace, nil) {
		return true
	}
	gk := namespaceGVK.GroupKind()
	_, exists := s.engine.informers.Resource(gk, "", namespace)
	return !exists && s.engine.informers.ResourceSynced(gk)
}
