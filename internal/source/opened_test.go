package source

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"testing"

	"mlkeeper.dev/internal/limit"
)

// listOfPut is what the list of a tree of put takes in memory: that of one file.
const listOfPut = memoryOfNode + int64(len("a"))

// unpacked opens a tree with a text for a context.
func unpacked(ctx context.Context, t *testing.T, s *Store, text string) (*Artifact, error) {
	t.Helper()
	return s.Unpack(ctx, "test", tarball(t, file("m/a", text)))
}

// TestArtifactsOfOneTreeShareIt has a tree that is open more than once take its memory once, until the last artifact is closed.
func TestArtifactsOfOneTreeShareIt(t *testing.T) {
	s := open(t, func(o *Options) { o.Lists = 2 * listOfPut })
	first := put(t, s, "one")
	for range 3 {
		next := put(t, s, "one")
		if first.FS() != next.FS() {
			t.Error("the tree is in memory twice")
		}
		first.Close()
		wantContents(t, next, map[string]string{"a": "one"})
		first = next
	}
	first.Close()
	first.Close()
	if e := s.entries[first.ID]; e.opened != nil || e.pins != 0 {
		t.Errorf("after the last one was closed it is open still: %+v", e.opened)
	}
	if _, err := unpacked(t.Context(), t, s, "another"); err != nil {
		t.Errorf("what was closed takes memory: %v", err)
	}
}

// TestTheListsOfARunAreBounded counts what one run opens, each tree once.
func TestTheListsOfARunAreBounded(t *testing.T) {
	s := open(t, func(o *Options) { o.ListsOfRun, o.Lists = 2*listOfPut+1, 20*listOfPut })
	run := Together(t.Context())
	for _, text := range []string{"one", "two", "one", "two", "two"} {
		a, err := unpacked(run, t, s, text)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
	}
	_, err := unpacked(run, t, s, "three")
	wantError(t, err, Terminal, ReasonTooLarge)
	for _, ctx := range []context.Context{Together(t.Context()), t.Context()} {
		a, err := unpacked(ctx, t, s, "three")
		if err != nil {
			t.Fatalf("another run pays for the first: %v", err)
		}
		a.Close()
	}
	for id, e := range s.entries {
		if want := map[bool]int{true: 3}[e.opened != nil]; e.pins > want {
			t.Errorf("%d pins of %s are left", e.pins, id)
		}
	}
}

// TestTheListsOfAllRunsAreBounded refuses for now what does not fit beside what others have open, a namespace half of it at most. Nothing is
// asked for again for that reason.
func TestTheListsOfAllRunsAreBounded(t *testing.T) {
	data := forge(t)
	asked := 0
	server := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		asked++
		static(data)(w, r)
	})
	s := open(t, func(o *Options) { o.Lists = 4 * listOfPut })
	var all []*Artifact
	for i, want := range []struct {
		namespace string
		fits      bool
	}{{"one", true}, {"one", true}, {"one", false}, {"two", true}, {"three", true}, {"three", false}} {
		a, err := unpacked(limit.WithNamespace(t.Context(), want.namespace), t, s, fmt.Sprint(i))
		if want.fits != (err == nil) {
			t.Fatalf("%d: %v", i, err)
		}
		if err != nil {
			wantError(t, err, Transient, ReasonStoreFull)
			continue
		}
		all = append(all, a)
	}
	_, err := s.Fetch(t.Context(), Request{URI: server.URL})
	wantError(t, err, Transient, ReasonStoreFull)
	if asked != 1 {
		t.Errorf("the server was asked %d times", asked)
	}
	for _, a := range all {
		a.Close()
	}
	if _, err := fetch(t, s, Request{URI: server.URL}); err != nil {
		t.Error(err)
	}
}

// TestTheMemoryOfAListIsKnownAfterARestart counts the list of a tree that an earlier process left.
func TestTheMemoryOfAListIsKnownAfterARestart(t *testing.T) {
	s := open(t, nil)
	a, err := s.Unpack(t.Context(), "x", tarball(t, folder("m/b/"), file("m/b/c", "one"), file("m/d", "two")))
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	again := open(t, func(o *Options) { o.Dir = s.options.Dir })
	if want, got := 3*memoryOfNode+int64(len("b"+"b/c"+"d")), again.entries[a.ID].memory; got != want || s.entries[a.ID].memory != want {
		t.Errorf("the list takes %d, after a restart %d, not %d", s.entries[a.ID].memory, got, want)
	}
}

// TestTheMemoryOfAListIsThatOfItsTree measures one: what counts is what the tree takes.
func TestTheMemoryOfAListIsThatOfItsTree(t *testing.T) {
	var l listing
	for i := range 20_000 {
		l.Files = append(l.Files, span{Path: fmt.Sprintf("folder-%d/file-%d", i/50, i), At: int64(i), Size: 1})
	}
	for i := range 400 {
		l.Folders = append(l.Folders, fmt.Sprintf("folder-%d", i))
	}
	raw, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	before := heapInUse()
	tree, err := unlist(raw, nil, 20_000)
	if err != nil {
		t.Fatal(err)
	}
	took := heapInUse() - before
	if counted := l.inMemory(); took > counted*5/4 || took < counted/2 {
		t.Errorf("it takes %d bytes, and counts as %d", took, counted)
	}
	runtime.KeepAlive(tree)
	runtime.KeepAlive(raw)
}

// heapInUse is what the heap holds once a collection frees nothing more. One is not enough: what earlier tests left in pools and behind
// cleanups goes with the next.
func heapInUse() int64 {
	var m runtime.MemStats
	for last := uint64(math.MaxUint64); ; last = m.HeapAlloc {
		runtime.GC()
		if runtime.ReadMemStats(&m); m.HeapAlloc >= last {
			return int64(last)
		}
	}
}
