package controller

import (
	"context"
	"runtime"
	"testing"
)

func TestTheLastAnswerStandsUntilItsResourceIsGone(t *testing.T) {
	last := Last[string, int, []byte]{}
	ctx, cancel := context.WithCancel(t.Context())
	for i, of := range []string{"a", "b"} {
		answer := make([]byte, 1<<20)
		last.Put(ctx, of, i, &answer)
	}
	runtime.GC()
	runtime.GC()
	if a, note := last.Get("b"); a == nil || len(*a) != 1<<20 || note != 1 {
		t.Errorf("%v, %d", a == nil, note)
	}
	cancel()
	last.Forget(func(of string) bool { return of == "b" })
	// A question that ends after its resource has gone.
	last.Put(ctx, "b", 2, &[]byte{})
	if b, _ := last.Get("b"); b != nil {
		t.Error("what is gone is remembered")
	}
	if a, _ := last.Get("a"); a == nil {
		t.Error("what is there is forgotten")
	}
}
