// Package parallel does something for many items at once. It owns that a panic over one item ends nothing else: Go ends the
// process for a panic in a goroutine that nobody recovers, and with it what the operator does for everybody else.
package parallel

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Each calls f for every item, for as many as limit at once, and returns the error of each. The error of one, a panic included,
// does not keep the others from being dealt with; a context that is done keeps those that have not begun.
func Each[T any](ctx context.Context, limit int, items []T, f func(ctx context.Context, i int, item T) error) []error {
	failures := make([]error, len(items))
	one := func(i int) {
		if failures[i] = ctx.Err(); failures[i] == nil {
			failures[i] = Recovered(ctx, func(ctx context.Context) error { return f(ctx, i, items[i]) })
		}
	}
	next := make(chan int, len(items))
	for i := range items {
		next <- i
	}
	close(next)
	var group sync.WaitGroup
	for range min(limit, len(items)) {
		group.Go(func() {
			for i := range next {
				one(i)
			}
		})
	}
	group.Wait()
	return failures
}

// Recovered calls f, and returns a panic in it as an error. The log has the stack.
func Recovered(ctx context.Context, f func(context.Context) error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("a panic of MLKeeper, of which the log has the stack: %v", cause)
			log.FromContext(ctx).Error(err, "panic", "stack", string(debug.Stack()))
		}
	}()
	return f(ctx)
}
