package kubeflow

import (
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/types"
)

// kept finds the last answer of a KfDef again, for as long as the engine holds it: what is asked for once more and has not
// changed is not rendered a second time.
type kept struct {
	mu sync.Mutex
	by map[types.UID]keptAnswer
}

type keptAnswer struct {
	inputs string
	answer weak.Pointer[Answer]
}

// get returns the last answer to the same inputs; nil where there is none.
func (k *kept) get(uid types.UID, inputs string) *Answer {
	k.mu.Lock()
	defer k.mu.Unlock()
	if one, ok := k.by[uid]; ok && one.inputs == inputs {
		return one.answer.Value()
	}
	return nil
}

// put keeps an answer, and forgets those that nobody holds any more.
func (k *kept) put(uid types.UID, inputs string, answer *Answer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for other, one := range k.by {
		if one.answer.Value() == nil {
			delete(k.by, other)
		}
	}
	if k.by == nil {
		k.by = map[types.UID]keptAnswer{}
	}
	k.by[uid] = keptAnswer{inputs: inputs, answer: weak.Make(answer)}
}
