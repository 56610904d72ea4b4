package rendered

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"mlkeeper.dev/internal/engine/plan"
)

const (
	suffix = ".json.gz"
	// temporary is the prefix of files that are being written.
	temporary = ".new-"
	// minDigest and maxDigest bound the length of a digest in hexadecimal.
	minDigest, maxDigest = 16, 128
)

// ErrTooLarge says that a rendered set is larger than the whole store.
var ErrTooLarge = errors.New("the rendered set is larger than the store")

// Store keeps rendered plans in one folder. It may be used from several goroutines, but by one process.
type Store struct {
	root  *os.Root
	max   int64
	clock clock.PassiveClock

	mu      sync.Mutex
	entries map[string]*stored
	size    int64
	serial  int
}

// stored is what the store knows of a file without reading it.
type stored struct {
	size int64
	used time.Time
}

// Open opens the store in a folder, which it creates. It takes over what an earlier process left, and removes what is
// no entry of the store, such as a file half written. maxBytes bounds the total size of the files.
func Open(dir string, maxBytes int64, clk clock.PassiveClock) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the store of rendered sets: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the store of rendered sets: %w", err)
	}
	s := &Store{root: root, max: maxBytes, clock: clk, entries: map[string]*stored{}}
	if err := s.scan(); err != nil {
		_ = root.Close()
		return nil, fmt.Errorf("open the store of rendered sets: %w", err)
	}
	return s, nil
}

// Close releases the folder.
func (s *Store) Close() error { return s.root.Close() }

func (s *Store) scan() error {
	files, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return err
	}
	now := s.clock.Now()
	for _, f := range files {
		digest, isEntry := strings.CutSuffix(f.Name(), suffix)
		info, err := f.Info()
		switch {
		case strings.HasPrefix(f.Name(), temporary) && f.Type().IsRegular():
			_ = s.root.Remove(f.Name())
		case !isEntry || !valid(digest) || err != nil || !f.Type().IsRegular():
			// Not ours; it is neither read nor removed.
		case info.Size() > s.max:
			_ = s.root.Remove(f.Name())
		default:
			used := info.ModTime()
			if used.After(now) {
				// A clock that was ahead must not keep an entry for ever.
				used = now
			}
			s.entries[digest] = &stored{size: info.Size(), used: used}
			s.size += info.Size()
		}
	}
	s.evict("")
	return nil
}

// Put keeps a rendered plan under the digest of its inputs, in place of an earlier one. The file appears in one step;
// it is not flushed to the disk, since a crash may cost an entry but never damages one unnoticed.
func (s *Store) Put(inputs string, p plan.Plan) error {
	if !valid(inputs) {
		return fmt.Errorf("%q is no digest", inputs)
	}
	packed, err := encode(inputs, p)
	if err != nil {
		return err
	}
	size := int64(len(packed))
	if size > s.max {
		return fmt.Errorf("%w: %d bytes of %d", ErrTooLarge, size, s.max)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serial++
	temp := fmt.Sprintf("%s%d", temporary, s.serial)
	if err := s.root.WriteFile(temp, packed, 0o600); err != nil {
		_ = s.root.Remove(temp)
		return fmt.Errorf("keep the rendered set %s: %w", inputs, err)
	}
	if err := s.root.Rename(temp, inputs+suffix); err != nil {
		_ = s.root.Remove(temp)
		return fmt.Errorf("keep the rendered set %s: %w", inputs, err)
	}
	if old := s.entries[inputs]; old != nil {
		s.size -= old.size
	}
	s.entries[inputs] = &stored{size: size}
	s.size += size
	s.touch(inputs)
	s.evict(inputs)
	return nil
}

// Get returns the plan that was rendered from the inputs. An entry that cannot be read whole is removed and missing.
func (s *Store) Get(inputs string) (plan.Plan, bool) {
	if !valid(inputs) {
		return plan.Plan{}, false
	}
	s.mu.Lock()
	known := s.entries[inputs]
	if known != nil {
		s.touch(inputs)
	}
	s.mu.Unlock()
	if known == nil {
		return plan.Plan{}, false
	}
	p, err := s.read(inputs)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		// Somebody may have put a good one meanwhile.
		if s.entries[inputs] == known {
			s.drop(inputs)
		}
		return plan.Plan{}, false
	}
	return p, true
}

func (s *Store) read(inputs string) (plan.Plan, error) {
	name := inputs + suffix
	info, err := s.root.Lstat(name)
	if err != nil {
		return plan.Plan{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > s.max {
		return plan.Plan{}, errors.New("is no regular file, or too large")
	}
	f, err := s.root.Open(name)
	if err != nil {
		return plan.Plan{}, err
	}
	defer func() { _ = f.Close() }()
	return decode(inputs, f, maxDecoded)
}

// touch records the use of an entry, in the file too, so that the order survives a restart. The caller holds the lock.
func (s *Store) touch(inputs string) {
	now := s.clock.Now()
	s.entries[inputs].used = now
	// The time in the file is a hint; a failure costs nothing but the order.
	_ = s.root.Chtimes(inputs+suffix, now, now)
}

// drop forgets an entry and removes its file. The caller holds the lock.
func (s *Store) drop(inputs string) {
	if e := s.entries[inputs]; e != nil {
		s.size -= e.size
		delete(s.entries, inputs)
	}
	_ = s.root.Remove(inputs + suffix)
}

// evict drops what was used longest ago until the rest fits, but never the entry to keep. The caller holds the lock.
func (s *Store) evict(keep string) {
	if s.size <= s.max {
		return
	}
	order := make([]string, 0, len(s.entries))
	for digest := range s.entries {
		if digest != keep {
			order = append(order, digest)
		}
	}
	slices.SortFunc(order, func(a, b string) int {
		if c := s.entries[a].used.Compare(s.entries[b].used); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	for _, digest := range order {
		if s.size <= s.max {
			return
		}
		s.drop(digest)
	}
}

// valid says that a digest is lower-case hexadecimal of a sensible length, and so a safe file name.
func valid(digest string) bool {
	if len(digest) < minDigest || len(digest) > maxDigest {
		return false
	}
	return strings.IndexFunc(digest, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') }) < 0
}
