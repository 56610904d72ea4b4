package reader

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/watch"
)

// The limits of the cached contents, in bytes; an object that was dropped is read again.
const (
	// softLimit applies to the objects of custom resources that are Ready. Within it, a small cluster never reads again.
	softLimit = 2 << 20
	// hardLimit applies to all objects.
	hardLimit = 32 << 20
)

// contents caches the live reads of referenced objects until their metadata changes (invariant 13).
type contents struct {
	mu sync.Mutex
	// by has the objects by the users who read them: what one may read, another may not.
	by    map[watch.Ref]map[string]content
	bytes int
	// of are the bytes by the namespace of the objects.
	of map[string]int
}

// content is one object and its approximate size in bytes.
type content struct {
	object *unstructured.Unstructured
	bytes  int
}

// get returns an object as a user read it at this version or a later one; nil where he did not.
func (c *contents) get(user string, ref watch.Ref, uid types.UID, version string) *unstructured.Unstructured {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.by[ref][user].object
	if u == nil || u.GetUID() != uid || u.GetResourceVersion() != version &&
		!observe.NewerVersion(u.GetResourceVersion(), version) {
		return nil
	}
	return u
}

// put caches an object, and drops others while the cache exceeds its hard limit: those of the namespace that has the most, so that one
// with many and large objects has those of no other read again.
func (c *contents) put(user string, ref watch.Ref, u *unstructured.Unstructured) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by, c.of = map[watch.Ref]map[string]content{}, map[string]int{}
	}
	one := content{object: u, bytes: sizeOf(u.Object)}
	c.countLocked(ref, -c.by[ref][user].bytes)
	delete(c.by[ref], user)
	for len(c.of) > 0 && c.bytes+one.bytes > hardLimit {
		c.dropHeaviestLocked()
	}
	if c.by[ref] == nil {
		c.by[ref] = map[string]content{}
	}
	c.by[ref][user] = one
	c.countLocked(ref, one.bytes)
}

func (c *contents) countLocked(ref watch.Ref, bytes int) {
	c.bytes += bytes
	if c.of[ref.Namespace] += bytes; c.of[ref.Namespace] == 0 {
		delete(c.of, ref.Namespace)
	}
}

// dropHeaviestLocked drops an object of the namespace that has the most.
func (c *contents) dropHeaviestLocked() {
	heaviest, most := "", 0
	for namespace, bytes := range c.of {
		if bytes > most {
			heaviest, most = namespace, bytes
		}
	}
	for ref := range c.by {
		if ref.Namespace == heaviest {
			c.dropLocked(ref)
			return
		}
	}
}

// evict drops the objects of a custom resource that is Ready, which hardly reads them again, while the cache exceeds its soft limit.
func (c *contents) evict(refs []watch.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ref := range refs {
		if c.bytes <= softLimit {
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
	for _, one := range c.by[ref] {
		c.countLocked(ref, -one.bytes)
	}
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
