package engine

import (
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// namespaceBudget is the number of bytes that the large custom resources of a kind take in the cache, in one namespace. Their schemas contain
	// types of Kubernetes without bounds, such as affinities, and values of charts.
	namespaceBudget = 32 << 20
	// freeSize is the number of bytes of each custom resource that do not count: how many small ones there are is a matter of a ResourceQuota.
	freeSize = 64 << 10
	// valueSize is what a value takes beside its text: an item of a list is a struct, whatever it has.
	valueSize = 64
)

// sizeOf estimates what the content of an object takes in memory.
func sizeOf(content any) int {
	size := valueSize
	switch v := content.(type) {
	case string:
		size += len(v)
	case []any:
		for _, item := range v {
			size += sizeOf(item)
		}
	case map[string]any:
		for key, item := range v {
			size += len(key) + sizeOf(item)
		}
	}
	return size
}

// sizeOfResource is the size of a custom resource. A status is written by MLKeeper, so that one of ordinary size does not count: otherwise what
// fits would not after its own status is written.
func sizeOfResource(content map[string]any) int {
	status := sizeOf(content["status"])
	return sizeOf(content) - min(status, freeSize)
}

// tooLargeError is why a custom resource is known by its name alone.
type tooLargeError struct {
	namespace string
	size      int
}

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("it takes %d bytes of memory. The custom resources of this kind in namespace %s have %d bytes each, and %d together beyond that, "+
		"which it would exceed", e.size, e.namespace, freeSize, namespaceBudget)
}

// budgets count the large custom resources of one kind by namespace.
type budgets struct {
	mu sync.Mutex
	of map[string]*budget
}

// budget is that of one namespace.
type budget struct {
	// kept has the custom resources that are cached whole and count, total is their sum, and waiting has those that are not cached whole.
	kept, waiting map[string]charge
	total         int
}

// charge is what a custom resource counts for. It belongs to a UID: the end of an object may be heard of after its successor.
type charge struct {
	uid  types.UID
	size int
}

// admit takes in a custom resource as it is now, and says whether it is cached whole. Administrators bring cluster-scoped ones.
func (b *budgets) admit(o metav1.Object, size int) bool {
	counts := size - freeSize
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropLocked(o.GetNamespace(), o.GetName())
	if counts <= 0 || o.GetNamespace() == "" {
		return true
	}
	if b.of == nil {
		b.of = map[string]*budget{}
	}
	in := b.of[o.GetNamespace()]
	if in == nil {
		in = &budget{kept: map[string]charge{}, waiting: map[string]charge{}}
		b.of[o.GetNamespace()] = in
	}
	one := charge{uid: o.GetUID(), size: counts}
	if in.total+counts > namespaceBudget {
		in.waiting[o.GetName()] = one
		return false
	}
	in.kept[o.GetName()] = one
	in.total += counts
	return true
}

// dropName forgets a custom resource that is not cached: no event tells that it is gone where its API was not served meanwhile.
func (b *budgets) dropName(key client.ObjectKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropLocked(key.Namespace, key.Name)
}

// drop forgets a custom resource that is gone.
func (b *budgets) drop(o metav1.Object) {
	b.mu.Lock()
	defer b.mu.Unlock()
	in := b.of[o.GetNamespace()]
	if in != nil && (in.kept[o.GetName()].uid == o.GetUID() || in.waiting[o.GetName()].uid == o.GetUID()) {
		b.dropLocked(o.GetNamespace(), o.GetName())
	}
}

func (b *budgets) dropLocked(namespace, name string) {
	in := b.of[namespace]
	if in == nil {
		return
	}
	in.total -= in.kept[name].size
	delete(in.kept, name)
	delete(in.waiting, name)
	if len(in.kept)+len(in.waiting) == 0 {
		delete(b.of, namespace)
	}
}

// fitting are the custom resources of a namespace that are not cached whole, and for each of which there is room now.
func (b *budgets) fitting(namespace string) (out []client.ObjectKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	in := b.of[namespace]
	if in == nil {
		return nil
	}
	for name, one := range in.waiting {
		if in.total+one.size <= namespaceBudget {
			out = append(out, client.ObjectKey{Namespace: namespace, Name: name})
		}
	}
	return out
}

// sized takes in that a custom resource is gone, and enqueues those for which there is room since.
func (s *stacks[C, F]) sized(old, now metav1.Object, _ bool) {
	one := now
	if one == nil {
		one = old
		s.budgets.drop(old)
	}
	for _, key := range s.budgets.fitting(one.GetNamespace()) {
		s.queue.add(key.Namespace, key.Name)
	}
}
