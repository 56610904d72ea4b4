package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/engine/decide"
)

// errStaleCache says that a custom resource is not any more what it was read as. Its own event follows.
var errStaleCache = errors.New("the custom resource was of the past")

// setUnconfirmed remembers whether what is known of a custom resource may be of the past. An API server that lags behind lists what is gone, and what
// was changed as it was before. The events that follow such a list confirm nothing, since they are of the past, too.
func (s *stacks[C, F]) setUnconfirmed(key client.ObjectKey, may bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if may {
		s.unconfirmed[key] = true
	} else {
		delete(s.unconfirmed, key)
	}
}

// trackUnconfirmed takes in what a watch tells of a custom resource.
func (s *stacks[C, F]) trackUnconfirmed(key client.ObjectKey, old, now metav1.Object, listed bool) {
	if listed || now == nil || old == nil && s.ofThePast(now) {
		s.setUnconfirmed(key, now != nil)
	}
}

// promptEvent is how long after its creation a watch tells of a custom resource at most, unless it tells of the past.
const promptEvent = 30 * time.Second

// ofThePast says that a custom resource of which a watch tells for the first time was created long ago: what follows a list of the past may
// have ended since.
func (s *stacks[C, F]) ofThePast(added metav1.Object) bool {
	return s.Clock.Now().Sub(added.GetCreationTimestamp().Time) > promptEvent
}

// dropUnconfirmed forgets that a custom resource was listed, if the cache does not have it. One that is listed again meanwhile is in the cache
// before setUnconfirmed is called for it.
func (s *stacks[C, F]) dropUnconfirmed(key client.ObjectKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, found := s.informers.Resource(s.def.GVK.GroupKind(), key.Namespace, key.Name); !found {
		delete(s.unconfirmed, key)
	}
}

// confirm asks live, once, for a custom resource that may be of the past, before the first write of a child or an Inventory. It fails
// with errStaleCache where the caches are behind.
func (s *stacks[C, F]) confirm(ctx context.Context, p *reconciliation[C, F]) error {
	if !p.unconfirmed {
		return nil
	}
	return s.recheckLive(ctx, p)
}

// isUnconfirmed says whether what the cache has of a custom resource may be out of date. It is asked before the cache is read: what has
// confirmed it by then is in the cache.
func (s *stacks[C, F]) isUnconfirmed(key client.ObjectKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unconfirmed[key]
}

// recheck fails with errStaleCache where the custom resource is gone, or is not what it was read as. It asks live in two cases only: before
// the first write of a child for what was listed, and where a child that was there has gone. The watches are not in order, so
// the end of a child may be heard of before that of its owner, with which it went: what were made anew then would have no owner.
func (s *stacks[C, F]) recheck(ctx context.Context, p *reconciliation[C, F]) error {
	switch {
	case slices.ContainsFunc(p.actions, func(a decide.Action) bool { return a.Verb == decide.Create && a.KnownUID != "" }):
		return s.recheckLive(ctx, p)
	case slices.ContainsFunc(p.actions, func(a decide.Action) bool { return a.Verb.Writes() }):
		return s.confirm(ctx, p)
	}
	return nil
}

// recheckLive reads the custom resource live. It fails with errStaleCache where that is gone, being deleted, another of its name, or of
// another spec.
func (s *stacks[C, F]) recheckLive(ctx context.Context, p *reconciliation[C, F]) error {
	mapping, ok := s.catalog.Lookup(s.def.GVK)
	if !ok {
		return errStaleCache
	}
	live, err := s.client.Resource(mapping.Resource).Namespace(p.key.Namespace).Get(ctx, p.key.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return errStaleCache
	case err != nil:
		return fmt.Errorf("ask whether %s is still there: %w", p.key, err)
	case live.GetUID() != p.stack.UID || live.GetDeletionTimestamp() != nil || live.GetGeneration() != p.before.GetGeneration():
		return errStaleCache
	}
	s.setUnconfirmed(p.key, false)
	p.unconfirmed = false
	return nil
}
