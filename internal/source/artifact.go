package source

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
)

// Artifact is an unpacked tree. It stays on disk until it is closed, whatever else is fetched.
type Artifact struct {
	// ID names the tree in the store; give it to Open. For archives it is the sha256 of their bytes.
	ID string
	// Digest is `sha256:<hex>` of the archive's bytes, the hash of the commit of a git repository, or the digest of the
	// manifest of an artifact in a registry.
	Digest string
	// Revision names the content for people, such as `main@<commit>`.
	Revision string
	// ETag is what the server calls the content; empty if it gave none.
	ETag string
	// Stale says why the source could not be asked, where this is what it gave the last time (Request.Before).
	Stale error
	// Files counts the files, Skipped the links, devices and submodules that were left out.
	Files, Skipped int
	// Size is what the tree takes on disk, in bytes.
	Size int64

	tree  *bundle
	close func()
}

// FS is the tree, read only. There is no disk behind it: no path of it leads out of it.
func (a *Artifact) FS() fs.FS { return a.tree }

// Close gives the tree back to the store, which may then remove it. It may be called more than once.
func (a *Artifact) Close() { a.close() }

// artifact opens the tree of an entry that the caller has pinned, and unpins it with Close.
func (s *Store) artifact(ctx context.Context, e *entryState, m meta) (*Artifact, error) {
	tree, err := s.share(ctx, e)
	if err != nil {
		s.lost(e, err)
		if full := new(Error); errors.As(err, &full) {
			return nil, full
		}
		return nil, diskError(err)
	}
	return &Artifact{
		ID: e.ID, Digest: m.Digest, Revision: m.Revision, ETag: m.ETag,
		Files: e.Files, Skipped: e.Skipped, Size: e.Size,
		tree: tree,
		close: sync.OnceFunc(func() {
			s.unshare(e)
			s.unpin(e)
		}),
	}, nil
}

// lost gives back an entry that cannot be opened. One whose files are gone or damaged is forgotten, so that it is fetched again; who has it
// open keeps what there is.
func (s *Store) lost(e *entryState, err error) {
	var doomed []string
	s.mu.Lock()
	e.pins--
	if (errors.Is(err, fs.ErrNotExist) || errors.Is(err, errDamaged)) && s.entries[e.ID] == e {
		doomed = append(doomed, s.drop(e))
	}
	s.mu.Unlock()
	s.remove(doomed)
}

// gone says that a tree could not be opened for what is on the disk, so that it is to be fetched again.
func gone(err error) bool {
	known := new(Error)
	return errors.As(err, &known) && known.Reason == ReasonStoreFailed
}

// open opens the contents of an entry, and reads its list.
func (s *Store) open(e *entryState) (*bundle, *os.File, error) {
	list, err := os.ReadFile(s.path(e.ID, listName))
	if err != nil {
		return nil, nil, err
	}
	file, err := os.Open(s.path(e.ID, contentName))
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && (info.Size() != e.Bytes || sumOf(list) != e.List) {
		err = errDamaged
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	tree, err := unlist(list, file, e.Bytes)
	if err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return tree, file, nil
}
