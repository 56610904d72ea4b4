package room

import "context"

// tellKey is the key of a context under which Tell finds whom to tell.
type tellKey struct{}

// WithTell returns a context whose questions tell a function what they know before they are over.
func WithTell(ctx context.Context, tell func(any)) context.Context {
	return context.WithValue(ctx, tellKey{}, tell)
}

// Tell gives the answer to a question as far as it is known, so that the custom resource goes on with it meanwhile. Answers that
// were told must not be changed any more. Where nobody waits for parts, as in a command, it does nothing.
func Tell(ctx context.Context, answer any) {
	if tell, ok := ctx.Value(tellKey{}).(func(any)); ok {
		tell(answer)
	}
}
