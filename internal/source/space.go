package source

import (
	"context"
	"errors"
	"fmt"
	"io"

	"mlkeeper.dev/internal/limit"
)

const (
	// freeDisk is what a fetch may take on disk before it waits for its turn, in bytes, and freeMemory what it may hold at once.
	freeDisk, freeMemory = 16 << 20, 1 << 20
	// diskStep is how much it is given at a time after that.
	diskStep = 64 << 20
)

// space is what one fetch takes of the disk and of the memory, which all fetches share. Most take little; of those that take much, as many
// go on at once as there is room for whatever becomes of them.
type space struct {
	store     *Store
	namespace string
	// most is what the fetch may take on disk, at most.
	most int64
	// taken is what it has on disk, and reserved how much of that the store has made room for.
	taken, reserved int64
	// granted says that it has its turn.
	granted bool
	// there says whether the store has by now what the fetch is for, since others fetch as well while this one waits for its turn; nil where
	// that is not known. found says that it had.
	there func() bool
	found bool
}

type spaceKey struct{}

// withSpace gives a fetch its space, which is returned at its end.
func (s *Store) withSpace(ctx context.Context) (context.Context, *space) {
	l := s.options.Limits
	one := &space{store: s, namespace: limit.NamespaceOf(ctx), most: l.Archive + 2*l.Unpacked}
	return context.WithValue(ctx, spaceKey{}, one), one
}

// spaceOf is the space of the fetch that a context is of; nil takes whatever it wants.
func spaceOf(ctx context.Context) *space {
	one, _ := ctx.Value(spaceKey{}).(*space)
	return one
}

// take takes so much of the disk.
func (p *space) take(ctx context.Context, n int64) error {
	if p == nil {
		return nil
	}
	if p.taken += n; p.taken <= freeDisk {
		return nil
	}
	if !p.granted {
		if !p.store.disk.Acquire(ctx, p.namespace, p.most) {
			return transient(ReasonStoreFull, "", "other fetches leave no space on the disk: it waits for them")
		}
		p.granted = true
		if p.found = p.there != nil && p.there(); p.found {
			return transient(ReasonStoreFull, "", "another fetch has brought it meanwhile")
		}
	}
	for p.taken > p.reserved {
		if err := p.store.reserve(diskStep); err != nil {
			return err
		}
		p.reserved += diskStep
	}
	return nil
}

// again says that a fetch that failed is to begin again with the turn that it has, for which it would have to wait once more later: what it is for
// was found, or its connection broke, as it does where it stood idle for long.
func (p *space) again(err error) bool {
	failed := new(Error)
	if !p.granted || !errors.As(err, &failed) || !p.found && failed.Reason != ReasonUnreachable {
		return false
	}
	p.taken = 0
	return true
}

// kept returns the room for what has become a tree, which counts for itself from then on. The turn ends with the fetch: who is next is to find
// the tree.
func (p *space) kept() {
	p.store.unreserve(p.reserved)
	p.reserved = 0
}

// end returns the space.
func (p *space) end() {
	p.kept()
	if p.granted {
		p.store.disk.Release(p.namespace, p.most)
		p.granted = false
	}
}

// hold waits for so much memory, and returns what gives it back.
func (p *space) hold(ctx context.Context, n int64) (release func(), err error) {
	if p == nil || n <= freeMemory {
		return func() {}, nil
	}
	if !p.store.options.Memory.Acquire(ctx, p.namespace, n) {
		return nil, transient(ReasonStoreFull, "", "other fetches and renderings leave no memory: it waits for them")
	}
	return func() { p.store.options.Memory.Release(p.namespace, n) }, nil
}

// counted writes to the disk what its fetch has taken space for.
type counted struct {
	ctx context.Context //nolint:containedctx // a writer has no other way to learn of it
	to  io.Writer
}

// Write implements io.Writer.
func (c counted) Write(p []byte) (int, error) {
	if err := spaceOf(c.ctx).take(c.ctx, int64(len(p))); err != nil {
		return 0, err
	}
	return c.to.Write(p)
}

// reserve makes room on the disk for what a fetch takes, where trees that nobody uses leave any.
func (s *Store) reserve(n int64) error {
	s.mu.Lock()
	s.reserved += n
	doomed := s.evict(s.options.Bytes - s.reserved)
	full := s.size+s.reserved > s.options.Bytes
	if full {
		s.reserved -= n
	}
	s.mu.Unlock()
	s.remove(doomed)
	if full {
		return transient(ReasonStoreFull, "give the operator's store of sources more space",
			"what is in use leaves no space for a fetch of more than %s", size(s.options.Bytes-s.size))
	}
	return nil
}

func (s *Store) unreserve(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved -= n
}

func size(bytes int64) string { return fmt.Sprintf("%d MiB", bytes>>20) }
