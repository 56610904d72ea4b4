package source

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mlkeeper.dev/internal/limit"
)

const (
	// format changes with every incompatible change of what is on disk; entries of another format are dropped.
	format = 2
	// temporary is the prefix of folders that are being filled or removed.
	temporary = ".new-"
	// entryName, contentName and listName are what the folder of an entry holds: its record, the contents of all files one
	// behind the other, and where each begins.
	entryName, contentName, listName = "entry.json", "content", "list.json"
	// keyName is the file of the key that the store made for itself, keyLength its length in bytes.
	keyName, keyLength = "key", 32
)

// Store fetches archives and keeps them unpacked in one folder. It may be used from several goroutines, but by one
// process.
type Store struct {
	options Options
	guard   guard
	key     []byte
	// disk shares out the disk among large fetches, indexes the memory among the indexes of chart repositories, and lists that among the lists
	// of open trees.
	disk, indexes, lists *limit.Limit
	// locked is the lock on the folder, and own says that it lies in that of another process.
	locked *os.File
	own    bool

	// ctx ends with Close; fetches run on it rather than on a caller's, since several callers share one.
	ctx     context.Context //nolint:containedctx // the life of the store, not of a call
	cancel  context.CancelFunc
	running sync.WaitGroup
	charts  chartIndexes

	mu      sync.Mutex
	closed  bool
	entries map[string]*entryState
	sources map[string]meta
	// flights are the fetches under way.
	flights map[string]*flight
	size    int64
	// reserved is what large fetches under way have on disk.
	reserved int64
	// dropped counts the trees that were dropped, for names.
	dropped int
}

// record is what is kept of a tree, in the file beside it.
type record struct {
	Format int    `json:"format"`
	ID     string `json:"id"`
	// Digest and Revision are those of the first source that the tree came from.
	Digest   string `json:"digest"`
	Revision string `json:"revision"`
	Files    int    `json:"files"`
	Skipped  int    `json:"skipped"`
	// Bytes is the size of the contents, and List the sha256 of the list, by which a tree that a crash cut short is noticed.
	Bytes int64  `json:"bytes"`
	List  string `json:"list"`
	// Size is what the tree takes on disk.
	Size int64 `json:"size"`
}

// entryState is what the store knows of a tree without looking at the disk.
type entryState struct {
	record
	used time.Time
	// pins counts the artifacts that are open, and fetches that rely on the entry.
	pins int
	// memory is what its list takes while its tree is open, in bytes.
	memory int64

	// opening guards opened, which is nil while nobody has the tree open.
	opening sync.Mutex
	opened  *openTree
}

// New opens the store in a folder, which it creates. It takes over the trees that an earlier process left, and removes
// what is half written, damaged or beyond Options.Bytes.
func New(o Options) (*Store, error) {
	o.setDefaults()
	for _, m := range o.Map {
		if err := m.check(); err != nil {
			return nil, fmt.Errorf("open the store of sources: %w", err)
		}
	}
	s := &Store{
		options: o, guard: newGuard(o.Allow, o.Deny), key: o.Key, disk: limit.New(o.Bytes/2, o.Bytes/2),
		indexes: limit.New(memoryOfIndexes, memoryOfIndexes/2), lists: limit.New(o.Lists, o.Lists/2),
		entries: map[string]*entryState{}, sources: map[string]meta{}, flights: map[string]*flight{},
	}
	if err := s.occupy(); err != nil {
		return nil, FolderError(err)
	}
	if len(s.key) == 0 {
		s.ownKey()
	}
	if err := s.scan(); err != nil {
		s.leave()
		return nil, FolderError(err)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// ownKey reads the key that the store made for itself, or makes one. Where it cannot be kept, every moving source is
// downloaded once more after a restart.
func (s *Store) ownKey() {
	name := s.path(keyName)
	if content, err := os.ReadFile(name); err == nil && len(content) == keyLength {
		s.key = content
		return
	}
	s.key = make([]byte, keyLength)
	_, _ = rand.Read(s.key) // never fails
	if err := os.WriteFile(name, s.key, 0o600); err != nil {
		s.options.Log.Info("The key of the store cannot be kept", "reason", err.Error())
	}
}

// Close ends the fetches under way and waits for them. Artifacts that are open stay readable.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.running.Wait()
	s.leave()
	return nil
}

// begin counts work that Close waits for.
func (s *Store) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return transient(ReasonStoreFailed, "", "the store of sources is closed")
	}
	s.running.Add(1)
	return nil
}

func (s *Store) path(name ...string) string {
	return filepath.Join(append([]string{s.options.Dir}, name...)...)
}

func (s *Store) scan() error {
	files, err := os.ReadDir(s.options.Dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		switch {
		case strings.HasPrefix(f.Name(), temporary):
			_ = os.RemoveAll(s.path(f.Name()))
		case sha256Hex.MatchString(f.Name()):
			e, err := s.load(f.Name())
			if err != nil {
				s.options.Log.Info("Dropping a tree that is not whole", "id", f.Name(), "reason", err.Error())
				_ = os.RemoveAll(s.path(f.Name()))
				continue
			}
			s.entries[e.ID] = e
			s.size += e.Size
		}
		// Everything else is not ours; it is neither read nor removed.
	}
	s.loadSources()
	s.remove(s.evict(s.options.Bytes))
	return nil
}

// load reads the record of an entry and compares the tree with it.
func (s *Store) load(id string) (*entryState, error) {
	name := filepath.Join(s.path(id), entryName)
	info, err := os.Lstat(name)
	if err != nil {
		return nil, errors.New("it has no record")
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, errors.New("its record cannot be read")
	}
	e := &entryState{used: info.ModTime()}
	if err := json.Unmarshal(content, &e.record); err != nil || e.Format != format || e.ID != id || e.Size < 0 {
		return nil, errors.New("its record is of another format, or damaged")
	}
	// A clock that was ahead must not keep an entry for ever.
	if now := s.options.Clock.Now(); e.used.After(now) {
		e.used = now
	}
	size, list, err := s.stored(id)
	if err != nil || size != e.Bytes || sumOf(list) != e.List {
		return nil, errors.New("its files are not those that were written")
	}
	var files listing
	if err := json.Unmarshal(list, &files); err != nil {
		return nil, errDamaged
	}
	e.memory = files.inMemory()
	return e, nil
}

// stored is the size of a tree's contents, and its list.
func (s *Store) stored(id string) (size int64, list []byte, err error) {
	info, err := os.Lstat(s.path(id, contentName))
	if err != nil {
		return 0, nil, err
	}
	if !info.Mode().IsRegular() {
		return 0, nil, errors.New("its contents are no file")
	}
	list, err = os.ReadFile(s.path(id, listName))
	return info.Size(), list, err
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Open returns a tree that was fetched before, without the network (invariant 16), and whether it is there. The caller
// closes it.
func (s *Store) Open(id string) (*Artifact, bool) {
	e := s.pin(id)
	if e == nil {
		return nil, false
	}
	a, err := s.artifact(s.ctx, e, meta{Digest: e.Digest, Revision: e.Revision})
	return a, err == nil
}

// pin keeps an entry from being removed until unpin, and records its use. It returns nil if there is no such entry.
func (s *Store) pin(id string) *entryState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pinLocked(id)
}

func (s *Store) pinLocked(id string) *entryState {
	e := s.entries[id]
	if e == nil {
		return nil
	}
	e.pins++
	e.used = s.options.Clock.Now()
	// The time on disk keeps the order over a restart; a failure costs nothing else.
	_ = os.Chtimes(filepath.Join(s.path(id), entryName), e.used, e.used)
	return e
}

func (s *Store) unpin(e *entryState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.pins--
}

// has says whether there is an entry.
func (s *Store) has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[id] != nil
}

// publish makes a finished folder, which holds the tree, an entry, and pins it. If the entry is there already, that one
// stays. The folder appears in one step; it is not flushed to the disk, since a crash may cost an entry but never damages
// one unnoticed.
func (s *Store) publish(folder string, r record, files listing) (*entryState, error) {
	r.Format = format
	if r.Size > s.options.Bytes {
		return nil, tooLarge("the tree takes %d bytes of the store's %d", r.Size, s.options.Bytes)
	}
	content, err := json.Marshal(r)
	if err != nil {
		return nil, diskError(err)
	}
	if err := os.WriteFile(filepath.Join(folder, entryName), content, 0o600); err != nil {
		return nil, diskError(err)
	}
	var doomed []string
	defer func() { s.remove(doomed) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.pinLocked(r.ID); e != nil {
		return e, nil
	}
	doomed = s.evict(s.options.Bytes - s.reserved - r.Size)
	if s.size+s.reserved+r.Size > s.options.Bytes {
		return nil, transient(ReasonStoreFull, "give the operator's store of sources more space",
			"what is in use leaves no space for the tree of %d bytes", r.Size)
	}
	if err := os.Rename(folder, s.path(r.ID)); err != nil {
		return nil, diskError(err)
	}
	s.entries[r.ID] = &entryState{record: r, memory: files.inMemory()}
	s.size += r.Size
	return s.pinLocked(r.ID), nil
}

// evict drops what was used longest ago, but nothing that is pinned, until the rest takes no more than limit bytes. It
// returns the folders to remove, which takes too long for the lock that the caller holds.
func (s *Store) evict(limit int64) []string {
	var order []*entryState
	for _, e := range s.entries {
		if e.pins == 0 {
			order = append(order, e)
		}
	}
	slices.SortFunc(order, func(a, b *entryState) int {
		return cmp.Or(a.used.Compare(b.used), strings.Compare(a.ID, b.ID))
	})
	var doomed []string
	for _, e := range order {
		if s.size <= limit {
			break
		}
		doomed = append(doomed, s.drop(e))
	}
	return doomed
}

// drop forgets an entry and moves its folder aside. The caller holds the lock.
func (s *Store) drop(e *entryState) string {
	delete(s.entries, e.ID)
	s.size -= e.Size
	s.options.Log.V(1).Info("Dropping a tree for lack of space", "id", e.ID, "bytes", e.Size)
	aside := s.path(temporary + "old-" + e.ID + "-" + strconv.Itoa(s.dropped))
	s.dropped++
	if err := os.Rename(s.path(e.ID), aside); err != nil {
		return s.path(e.ID)
	}
	return aside
}

func (s *Store) remove(folders []string) {
	for _, f := range folders {
		_ = os.RemoveAll(f)
	}
}
