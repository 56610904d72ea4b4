package seldon

import (
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/types"
)

// kept finds the last answer for a component again, for as long as the engine holds it.
type kept struct {
	mu sync.Mutex
	by map[keptKey]keptAnswer
}

type keptKey struct {
	uid       types.UID
	component string
}

type keptAnswer struct {
	// inputs is what the answer was rendered from, but for what the templates asked of the cluster; name is the question that
	// it answers.
	inputs, name string
	answer       weak.Pointer[Answer]
}

// last is the last answer for a component with what it was rendered from, and the question; nil where there is none.
func (k *kept) last(uid types.UID, component string) (answer *Answer, inputs, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	one, ok := k.by[keptKey{uid, component}]
	if !ok {
		return nil, "", ""
	}
	return one.answer.Value(), one.inputs, one.name
}

// put keeps an answer, and forgets those that nobody holds any more.
func (k *kept) put(uid types.UID, component, inputs, name string, answer *Answer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for other, one := range k.by {
		if one.answer.Value() == nil {
			delete(k.by, other)
		}
	}
	if k.by == nil {
		k.by = map[keptKey]keptAnswer{}
	}
	k.by[keptKey{uid, component}] = keptAnswer{inputs: inputs, name: name, answer: weak.Make(answer)}
}
