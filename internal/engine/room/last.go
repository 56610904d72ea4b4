package room

import (
	"sync"
	"weak"
)

// Last finds the last answer to a question again, for as long as the engine holds it: what is asked for once more and has not
// changed is not rendered a second time. K is whose question it was, N what tells whether it was the same.
type Last[K comparable, N, A any] struct {
	mu sync.Mutex
	by map[K]noted[N, A]
}

type noted[N, A any] struct {
	note   N
	answer weak.Pointer[A]
}

// Get returns the last answer with its note; nil where there is none.
func (l *Last[K, N, A]) Get(of K) (answer *A, note N) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.by[of]
	return one.answer.Value(), one.note
}

// Put keeps an answer, and forgets those that nobody holds any more.
func (l *Last[K, N, A]) Put(of K, note N, answer *A) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for other, one := range l.by {
		if one.answer.Value() == nil {
			delete(l.by, other)
		}
	}
	if l.by == nil {
		l.by = map[K]noted[N, A]{}
	}
	l.by[of] = noted[N, A]{note: note, answer: weak.Make(answer)}
}
