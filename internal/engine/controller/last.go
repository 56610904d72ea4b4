package controller

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Last keeps the last answer to a question for as long as its custom resource is there, whatever became of the question: what
// was rendered last stays declared while something newer cannot be, and what has not changed is not rendered a second time. K is
// whose question it was, N what tells whether it was the same.
type Last[K comparable, N, A any] struct {
	mu sync.Mutex
	by map[K]noted[N, A]
}

type noted[N, A any] struct {
	note   N
	answer *A
}

// Forgetful is implemented by systems that keep something of a custom resource, and forget it when that is gone.
type Forgetful interface {
	Forget(key types.NamespacedName)
}

// Get returns the last answer with its note; nil where there is none.
func (l *Last[K, N, A]) Get(of K) (answer *A, note N) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.by[of]
	return one.answer, one.note
}

// Put keeps the answer of a question with this context; that of one which was dropped, as when the custom resource has gone, is
// not kept.
func (l *Last[K, N, A]) Put(ctx context.Context, of K, note N, answer *A) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	if l.by == nil {
		l.by = map[K]noted[N, A]{}
	}
	l.by[of] = noted[N, A]{note: note, answer: answer}
}

// Forget drops the answers of those that are gone.
func (l *Last[K, N, A]) Forget(gone func(K) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for of := range l.by {
		if gone(of) {
			delete(l.by, of)
		}
	}
}
