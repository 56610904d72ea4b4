package source

import (
	"context"
	"os"
	"runtime/debug"

	"mlkeeper.dev/internal/limit"
)

// flight is one fetch under way, which any number of callers may wait for.
type flight struct {
	uri  URI
	key  string
	auth Auth
	// fixed refuses branches of git.
	fixed bool
	// verify asks for a signature; nil for none.
	verify *Verify
	// work is a folder for this attempt alone, removed at its end.
	work string

	// time is what it runs on, and done is closed at its end, when gave and err are its result.
	time limit.Shared
	done chan struct{}
	gave meta
	err  error
}

// join has a caller wait for the fetch with a name until it calls leave. It is f, unless one is under way. It runs on the store's context: the
// caller that began it may go while others wait. What it waits for its turn counts neither against its own time nor against that of its callers.
func (s *Store) join(ctx context.Context, name string, f *flight) (under *flight, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if under := s.flights[name]; under != nil {
		return under, under.time.Join(ctx)
	}
	var cancel context.CancelFunc
	f.time, cancel = limit.NewShared(limit.WithNamespace(s.ctx, limit.NamespaceOf(ctx)), s.options.Limits.Total)
	f.done = make(chan struct{})
	s.flights[name] = f
	leave = f.time.Join(ctx)
	go func() {
		defer cancel()
		f.gave, f.err = s.fly(f.time, f)
		s.mu.Lock()
		delete(s.flights, name)
		s.mu.Unlock()
		close(f.done)
	}()
	return f, leave
}

// fly does one fetch.
func (s *Store) fly(ctx context.Context, f *flight) (m meta, err error) {
	if err := s.begin(); err != nil {
		return meta{}, err
	}
	defer s.running.Done()
	// Libraries parse here what anybody may have sent; their panic must not end the operator.
	defer func() {
		if p := recover(); p != nil {
			s.options.Log.Error(nil, "A fetch panicked", "uri", f.uri.String(), "stack", string(debug.Stack()))
			err = invalid("what the server sent cannot be read")
		}
	}()
	ctx, room := s.withSpace(ctx)
	defer room.end()
	if m, err = s.bring(ctx, f); err != nil && ctx.Err() == nil && room.again(err) {
		m, err = s.bring(ctx, f)
	}
	if err == nil {
		s.remember(f.key, m)
	}
	return m, err
}

// bring asks for what a fetch is for.
func (s *Store) bring(ctx context.Context, f *flight) (meta, error) {
	var err error
	if f.work, err = os.MkdirTemp(s.options.Dir, temporary); err != nil {
		return meta{}, diskError(err)
	}
	defer s.remove([]string{f.work})
	switch f.uri.Kind {
	case KindGit:
		return s.fetchGit(ctx, f)
	case KindOCI:
		return s.fetchOCI(ctx, f)
	default:
		return s.fetchArchive(ctx, f)
	}
}
