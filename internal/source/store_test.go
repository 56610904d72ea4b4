package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func put(t *testing.T, s *Store, text string) *Artifact {
	t.Helper()
	a, err := s.Unpack(context.Background(), "test", tarball(t, file("m/a", text)))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func there(s *Store, id string) bool {
	a, ok := s.Open(id)
	if ok {
		a.Close()
	}
	return ok
}

func TestInvariant16TreesAreFoundWithoutTheNetwork(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := open(t, func(o *Options) { o.Dir = dir })
	a := put(t, s, "one")
	a.Close()
	a.Close()
	for _, id := range []string{"", "..", a.ID[:63], strings.Repeat("0", 64), a.ID + "/.."} {
		if there(s, id) {
			t.Errorf("found %q", id)
		}
	}
	again := open(t, func(o *Options) { o.Dir = dir })
	b, ok := again.Open(a.ID)
	if !ok {
		t.Fatal("not found after a restart")
	}
	defer b.Close()
	wantContents(t, b, map[string]string{"a": "one"})
	if b.ID != a.ID || b.Digest != a.Digest || b.Revision != a.Revision || b.Files != 1 || b.Size != a.Size {
		t.Errorf("%+v, was %+v", b, a)
	}
}

func TestTheLeastRecentlyUsedIsEvicted(t *testing.T) {
	dir, clk := t.TempDir(), newClock()
	tick := func() { clk.SetTime(clk.Now().Add(time.Second)) }
	s := open(t, func(o *Options) { o.Dir, o.Clock, o.Bytes = dir, clk, 4*3*block })
	var ids []string
	add := func(s *Store) {
		tick()
		a := put(t, s, fmt.Sprint(len(ids)))
		a.Close()
		if a.Size != 4*block {
			t.Fatalf("a tree takes %d bytes", a.Size)
		}
		ids = append(ids, a.ID)
	}
	for range 3 {
		add(s)
	}
	tick()
	there(s, ids[0])
	add(s)
	check := func(s *Store, want ...bool) {
		t.Helper()
		for i, w := range want {
			if got := s.entries[ids[i]] != nil; got != w {
				t.Errorf("tree %d is there: %t", i, got)
			}
			if _, err := os.Stat(s.path(ids[i], contentName)); (err == nil) != w {
				t.Errorf("tree %d on disk: %v", i, err)
			}
		}
	}
	check(s, true, false, true, true)
	// The order survives a restart, and a smaller store drops what no longer fits.
	smaller := open(t, func(o *Options) { o.Dir, o.Clock, o.Bytes = dir, clk, 2*4*block })
	check(smaller, true, false, false, true)
	// What is open stays, and is readable, whatever comes.
	one, _ := smaller.Open(ids[0])
	other, _ := smaller.Open(ids[3])
	_, err := smaller.Unpack(context.Background(), "x", tarball(t, file("m/a", "new")))
	wantError(t, err, Transient, ReasonStoreFull)
	other.Close()
	add(smaller)
	check(smaller, true, false, false, false, true)
	wantContents(t, one, map[string]string{"a": "0"})
	one.Close()
	_, err = smaller.Unpack(context.Background(), "x", tarball(t, file("m/a", strings.Repeat("x", 20*block))))
	wantError(t, err, Terminal, ReasonTooLarge)
	if smaller.size != 2*4*block {
		t.Errorf("%d bytes", smaller.size)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, temporary+"*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestWhatIsNotWholeIsDroppedAtTheStart(t *testing.T) {
	for name, harm := range map[string]func(folder string) error{
		"no record":       func(f string) error { return os.Remove(filepath.Join(f, entryName)) },
		"an empty record": func(f string) error { return os.WriteFile(filepath.Join(f, entryName), nil, 0o600) },
		"another's record": func(f string) error {
			return os.WriteFile(filepath.Join(f, entryName), []byte(`{"format":2,"id":"0"}`), 0o600)
		},
		"no contents":       func(f string) error { return os.Remove(filepath.Join(f, contentName)) },
		"no list":           func(f string) error { return os.Remove(filepath.Join(f, listName)) },
		"contents were cut": func(f string) error { return os.Truncate(filepath.Join(f, contentName), 1) },
		"a file too many": func(f string) error {
			return os.WriteFile(filepath.Join(f, listName), []byte(`{"files":[{"p":"a","a":0,"s":4},{"p":"b","a":0,"s":4}]}`), 0o600)
		},
		"a link": func(f string) error {
			return errors.Join(os.Remove(filepath.Join(f, contentName)), os.Symlink("/etc/passwd", filepath.Join(f, contentName)))
		},
		"a newer format": func(f string) error {
			content, err := os.ReadFile(filepath.Join(f, entryName))
			return errors.Join(err, os.WriteFile(filepath.Join(f, entryName), []byte(strings.Replace(string(content), `"format":2`, `"format":3`, 1)), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, func(o *Options) { o.Dir = dir })
			a, b := put(t, s, "text"), put(t, s, "other")
			a.Close()
			b.Close()
			s.remember("key", meta{ID: a.ID})
			if err := harm(s.path(a.ID)); err != nil {
				t.Fatal(err)
			}
			again := open(t, func(o *Options) { o.Dir = dir })
			if there(again, a.ID) || !there(again, b.ID) || again.size != b.Size || len(again.sources) != 0 {
				t.Errorf("took over %v, %d bytes, %v", again.entries, again.size, again.sources)
			}
			if _, err := os.Lstat(s.path(a.ID)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("still on disk: %v", err)
			}
			put(t, again, "text").Close()
		})
	}
}

func TestACrashLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	s := open(t, func(o *Options) { o.Dir = dir })
	put(t, s, "text").Close()
	half := filepath.Join(dir, temporary+"123", "filled", "m")
	for _, err := range []error{
		os.MkdirAll(half, 0o700), os.WriteFile(filepath.Join(half, "a"), []byte("half"), 0o600),
		os.WriteFile(filepath.Join(dir, temporary+indexName), []byte("{"), 0o600),
		os.WriteFile(filepath.Join(dir, indexName), []byte("{half"), 0o600),
		os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600), os.Mkdir(filepath.Join(dir, "lost+found"), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	again := open(t, func(o *Options) { o.Dir = dir })
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 4 {
		t.Errorf("%v, %v: want the tree, the lock and what is not ours", files, err)
	}
	if len(again.entries) != 1 || again.sources == nil {
		t.Errorf("%d trees", len(again.entries))
	}
	again.remember("key", meta{ID: "x"})
}

func TestTheIndexIsBounded(t *testing.T) {
	clk := newClock()
	s := open(t, func(o *Options) { o.Clock = clk })
	a := put(t, s, "text")
	defer a.Close()
	for i := range maxSources {
		s.sources[fmt.Sprint(i)] = meta{ID: a.ID, Used: clk.Now().Add(time.Duration(i-maxSources) * time.Second)}
	}
	s.remember("new", meta{ID: a.ID, ETag: strings.Repeat("x", maxETag+1)})
	if _, ok := s.sources["0"]; ok || len(s.sources) != maxSources {
		t.Errorf("%d sources, the oldest is there: %t", len(s.sources), ok)
	}
	s.remember("bad", meta{ID: a.ID, ETag: "a\r\nb"})
	if s.sources["new"].ETag != "" || s.sources["bad"].ETag != "" {
		t.Error("keeps an ETag that cannot be sent")
	}
	index, err := os.ReadFile(s.path(indexName))
	if err != nil || len(index) == 0 {
		t.Fatal(err)
	}
	if _, err := fetch(t, s, Request{URI: "http://127.0.0.1:1/?s3cret", Auth: Auth{Proxy: "http://s3cret"}}); err == nil || strings.Contains(string(index), "s3cret") {
		t.Errorf("the index tells a secret, or %v", err)
	}
}

func TestTheTreeStaysInItsFolder(t *testing.T) {
	s := open(t, nil)
	a := put(t, s, "text")
	defer a.Close()
	for _, name := range []string{"../entry.json", "/etc/passwd", "a/../../entry.json"} {
		if content, err := fs.ReadFile(a.FS(), name); err == nil {
			t.Errorf("read %s: %q", name, content)
		}
	}
}

func TestNewFailsOnAFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Dir: name}); err == nil {
		t.Error("opened a file")
	}
}

func TestStoreIsConcurrencySafe(t *testing.T) {
	s := open(t, func(o *Options) { o.Bytes = 20 * 4 * block })
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 25 {
				a := put(t, s, fmt.Sprint((i+j)%30))
				if got := contents(t, a); len(got) != 1 {
					t.Errorf("half a tree: %v", got)
				}
				a.Close()
				there(s, a.ID)
			}
		})
	}
	wg.Wait()
	if s.size > s.options.Bytes {
		t.Errorf("%d bytes", s.size)
	}
	for id, e := range s.entries {
		if e.pins != 0 {
			t.Errorf("%d pins of %s are left", e.pins, id)
		}
	}
}

// TestATreeThatIsGoneFromTheDiskIsFetchedAgain removes what was kept while the store runs: pinned content is asked for once more.
func TestATreeThatIsGoneFromTheDiskIsFetchedAgain(t *testing.T) {
	data := forge(t)
	server := serve(t, false, static(data))
	s := open(t, nil)
	sum := sha256.Sum256(data)
	request := Request{URI: server.URL, Digest: hex.EncodeToString(sum[:])}
	a, err := fetch(t, s, request)
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	if err := os.RemoveAll(s.path(a.ID)); err != nil {
		t.Fatal(err)
	}
	// One that has it open, and one whose contents were cut off, change nothing.
	for range 2 {
		if a, err = fetch(t, s, request); err != nil {
			t.Fatal(err)
		}
		wantContents(t, a, forged)
		if err := os.Truncate(s.path(a.ID, contentName), 3); err != nil {
			t.Fatal(err)
		}
	}
	if a, err = fetch(t, s, request); err != nil {
		t.Fatal(err)
	}
	wantContents(t, a, forged)
	if size := s.size; size != a.Size {
		t.Errorf("the store counts %d bytes for a tree of %d", size, a.Size)
	}
}
