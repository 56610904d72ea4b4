package source

import (
	"context"
	"os"
	"sync"

	"mlkeeper.dev/internal/limit"
)

// memoryOfNode is what a file or folder takes in memory while its tree is open, in bytes, about, besides its path: a node, its place in the
// map of the tree, and one in the list of its folder.
const memoryOfNode = 144

// memoryOfRun is what the lists of what one run has open may take together, in bytes. One list of the default Limits has less.
const memoryOfRun = 32 << 20

// openTree is the tree of an entry while it is open. All artifacts of the entry share it, since it is read only.
type openTree struct {
	tree *bundle
	file *os.File
	// users counts the artifacts, and namespace is the one that its memory counts for: that which opened it first.
	users     int
	namespace string
}

// inMemory is what the list takes in memory while its tree is open, in bytes, about.
func (l listing) inMemory() int64 {
	out := int64(len(l.Files)+len(l.Folders)) * memoryOfNode
	for _, f := range l.Files {
		out += int64(len(f.Path))
	}
	for _, name := range l.Folders {
		out += int64(len(name))
	}
	return out
}

// share opens the tree of an entry, or takes the one that is open. Every share needs an unshare.
func (s *Store) share(ctx context.Context, e *entryState) (*bundle, error) {
	if err := s.countTogether(ctx, e); err != nil {
		return nil, err
	}
	e.opening.Lock()
	defer e.opening.Unlock()
	if e.opened == nil {
		namespace := limit.NamespaceOf(ctx)
		if !s.lists.TryAcquire(namespace, e.memory) {
			return nil, transient(ReasonStoreFull, "", "other renderings have so much open that no memory is left for its list of files: it waits for them")
		}
		tree, file, err := s.open(e)
		if err != nil {
			s.lists.Release(namespace, e.memory)
			return nil, err
		}
		e.opened = &openTree{tree: tree, file: file, namespace: namespace}
	} else if !s.whole(e) {
		return nil, errDamaged
	}
	e.opened.users++
	return e.opened.tree, nil
}

// unshare gives the tree of an entry back, and closes it after the last user.
func (s *Store) unshare(e *entryState) {
	e.opening.Lock()
	defer e.opening.Unlock()
	if e.opened.users--; e.opened.users == 0 {
		_ = e.opened.file.Close()
		s.lists.Release(e.opened.namespace, e.memory)
		e.opened = nil
	}
}

// whole says that the contents of an open entry are still on the disk.
func (s *Store) whole(e *entryState) bool {
	now, err := os.Stat(s.path(e.ID, contentName))
	if err != nil {
		return false
	}
	before, err := e.opened.file.Stat()
	return err == nil && os.SameFile(before, now) && now.Size() == e.Bytes
}

type togetherKey struct{}

// together is what one run has opened.
type together struct {
	mu    sync.Mutex
	trees map[string]bool
	bytes int64
}

// Together has the trees count together that are opened for a context: their lists may take Options.ListsOfRun of memory, each tree counted
// once. None of them is to be closed before the last one is opened.
func Together(ctx context.Context) context.Context {
	return context.WithValue(ctx, togetherKey{}, &together{trees: map[string]bool{}})
}

// countTogether counts an entry for the run that opens it.
func (s *Store) countTogether(ctx context.Context, e *entryState) error {
	run, _ := ctx.Value(togetherKey{}).(*together)
	if run == nil {
		return nil
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	if run.trees[e.ID] {
		return nil
	}
	if most := s.options.ListsOfRun; run.bytes+e.memory > most {
		return terminal(ReasonTooLarge, "refer to fewer repositories at once, or to smaller ones, such as by an archive of one folder",
			"with it, the files and folders of all sources are more than can be listed in %s of memory", size(most))
	}
	run.trees[e.ID] = true
	run.bytes += e.memory
	return nil
}
