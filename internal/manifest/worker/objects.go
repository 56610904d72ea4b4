package worker

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
)

// methodObject is the method by which a worker sends an object that it rendered.
const methodObject = "object"

// object is an object as it is sent, in one of several lists.
type object struct {
	List string
	Raw  []byte
}

// Send sends an object to the caller.
func (c *Caller) Send(list string, o *unstructured.Unstructured) error {
	raw, err := json.Marshal(o.Object)
	if err != nil {
		return fmt.Errorf("%s %s cannot be written as JSON: %w", o.GetKind(), o.GetName(), err)
	}
	_, err = Call[bool](c, methodObject, object{List: list, Raw: raw})
	return err
}

// Objects has take be given what a worker sends. The caller keeps it, so that its size in memory is bounded, and not that of its text
// alone.
func Objects(take func(list string, o *unstructured.Unstructured), handlers map[string]Handler) {
	left := int64(maxResult)
	handlers[methodObject] = Handle(func(_ *Run, o object) (bool, error) {
		if left -= inMemory(o.Raw); left < 0 {
			return false, &LimitError{fmt.Sprintf("what it renders takes more than %d MiB of memory", maxResult>>20)}
		}
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal(o.Raw, &u.Object); err != nil {
			return false, fmt.Errorf("an object is no JSON: %w", err)
		}
		take(o.List, u)
		return true, nil
	})
}

// ofValue is what a value takes in memory besides its text, in bytes, about.
const ofValue = 64

// inMemory is what a JSON text takes in memory once it is decoded, in bytes, about.
func inMemory(raw []byte) int64 {
	size, text := int64(len(raw)), false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case !text && (c == ',' || c == '{' || c == '[' || c == ':'):
			size += ofValue
		}
	}
	return size
}
