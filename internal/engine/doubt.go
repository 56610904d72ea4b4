package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/engine/decide"
)

// errPast says that a custom resource is not any more what it was read as. Its own event follows.
var errPast = errors.New("the custom resource was of the past")

// doubt remembers of a custom resource whether it was listed, which an API server that lags behind answers from the past:
// what is gone may be in the list, and what was changed as it was before. Nor does an event dispel the doubt, since what follows
// such a list is what happened after it, one by one.
func (s *stacks[C, F]) doubt(key client.ObjectKey, listed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if listed {
		s.doubted[key] = true
	} else {
		delete(s.doubted, key)
	}
}

// sure asks live, once, for a custom resource that was listed, before the first write of a child or an Inventory. It fails
// with errPast where the caches are behind.
func (s *stacks[C, F]) sure(ctx context.Context, p *pass[C, F]) error {
	if !p.doubted {
		return nil
	}
	return s.ask(ctx, p)
}

// doubts says whether what the cache has of a custom resource is to be doubted. It is asked before the cache is read: what has
// dispelled a doubt by then is in the cache.
func (s *stacks[C, F]) doubts(key client.ObjectKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.doubted[key]
}

// past says that the custom resource is gone, or is not what it was read as. It is asked for live in two cases only: before
// the first write of a child for what was listed, and where a child that was there has gone. The watches are not in order, so
// the end of a child may be heard of before that of its owner, with which it went: what were made anew then would have no owner.
func (s *stacks[C, F]) past(ctx context.Context, p *pass[C, F]) (bool, error) {
	var err error
	switch {
	case slices.ContainsFunc(p.actions, func(a decide.Action) bool { return a.Verb == decide.Create && a.KnownUID != "" }):
		err = s.ask(ctx, p)
	case slices.ContainsFunc(p.actions, func(a decide.Action) bool { return a.Verb.Writes() }):
		err = s.sure(ctx, p)
	}
	if errors.Is(err, errPast) {
		return true, nil
	}
	return false, err
}

// ask reads the custom resource live. It fails with errPast where that is gone, being deleted, another of its name, or of
// another spec.
func (s *stacks[C, F]) ask(ctx context.Context, p *pass[C, F]) error {
	mapping, ok := s.catalog.Lookup(s.def.GVK)
	if !ok {
		return errPast
	}
	live, err := s.client.Resource(mapping.Resource).Namespace(p.key.Namespace).Get(ctx, p.key.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return errPast
	case err != nil:
		return fmt.Errorf("ask whether %s is still there: %w", p.key, err)
	case live.GetUID() != p.stack.UID || live.GetDeletionTimestamp() != nil || live.GetGeneration() != p.before.GetGeneration():
		return errPast
	}
	s.doubt(p.key, false)
	p.doubted = false
	return nil
}
