package worker

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"mlkeeper.dev/internal/manifest/bounded"
)

// methodObject is the method by which a worker sends an object that it rendered.
const methodObject = "object"

// object is an object as it is sent, in one of several lists.
type object struct {
	List string
	Raw  []byte
}

// Send sends an object to the parent.
func (c *Parent) Send(list string, o *unstructured.Unstructured) error {
	raw, err := json.Marshal(o.Object)
	if err != nil {
		return fmt.Errorf("%s %s cannot be written as JSON: %w", o.GetKind(), o.GetName(), err)
	}
	_, err = Call[bool](c, methodObject, object{List: list, Raw: raw})
	return err
}

// Objects are what a worker sends, by their lists. The parent keeps them, so that what they take in memory is bounded, and not their text
// alone.
type Objects struct {
	lists map[string][]*unstructured.Unstructured
	sizes map[string]int64
	size  int64
}

// List is one of the lists.
func (o *Objects) List(name string) []*unstructured.Unstructured { return o.lists[name] }

// Drop forgets a list.
func (o *Objects) Drop(name string) {
	o.size -= o.sizes[name]
	delete(o.lists, name)
	delete(o.sizes, name)
}

// Collect adds the objects that a worker sends. It bounds what several workers send for one job together.
func (o *Objects) Collect(handlers map[string]Handler) {
	o.lists, o.sizes = map[string][]*unstructured.Unstructured{}, map[string]int64{}
	handlers[methodObject] = Handle(func(_ *Run, sent object) (bool, error) {
		size := bounded.JSONInMemory(sent.Raw)
		if o.size+size > maxResult {
			return false, &LimitError{What: fmt.Sprintf("what it renders takes more than %d MiB of memory", maxResult>>20)}
		}
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal(sent.Raw, &u.Object); err != nil {
			return false, fmt.Errorf("an object is no JSON: %w", err)
		}
		o.lists[sent.List] = append(o.lists[sent.List], u)
		o.sizes[sent.List] += size
		o.size += size
		return true, nil
	})
}

// InMemory is what objects take in memory, in bytes, about.
func InMemory(objects []*unstructured.Unstructured) (size int64) {
	for _, o := range objects {
		size += bounded.InMemory(o.Object)
	}
	return size
}
