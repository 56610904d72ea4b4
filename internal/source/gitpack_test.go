package source

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"mlkeeper.dev/internal/limit"
)

// treeOf is a tree of git as it is in a pack: a folder, and files that the pack lacks.
func treeOf(folder plumbing.Hash, files int) []byte {
	out := append([]byte("40000 a\x00"), folder[:]...)
	for range files {
		out = append(append(out, "100644 b\x00"...), make([]byte, 20)...)
	}
	return out
}

// packWith is a pack with objects of one of git's numbered kinds, as it was read.
func packWith(t *testing.T, limits Limits, kind byte, objects ...[]byte) *pack {
	t.Helper()
	o := Options{Limits: limits}
	o.setDefaults()
	p, err := newPack(filepath.Join(t.TempDir(), "objects"), o.Limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	var entries [][]byte
	for _, content := range objects {
		entries = append(entries, entryOf(kind, content))
	}
	if err := p.read(context.Background(), bytes.NewReader(packOf(entries...))); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestTreesOfGitAreNoBombs has folders in folders, of which each holds most of what all may, before the first file is written, and objects
// that are larger than any real one.
func TestTreesOfGitAreNoBombs(t *testing.T) {
	inner := treeOf(plumbing.ZeroHash, 60)
	outer := treeOf(plumbing.ComputeHash(plumbing.TreeObject, inner), 60)
	p := packWith(t, Limits{Entries: 100}, 2, inner, outer)
	to, err := newTree(filepath.Join(t.TempDir(), "content"), p.limits)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = to.close() }()
	err = p.checkout(t.Context(), plumbing.ComputeHash(plumbing.TreeObject, outer), "", to)
	wantError(t, err, Terminal, ReasonTooLarge)
	if to.entries > 1 {
		t.Errorf("%d entries were written before", to.entries)
	}
	large := make([]byte, maxDecoded+1)
	_, err = packWith(t, Limits{}, 2, large).list(t.Context(), plumbing.ComputeHash(plumbing.TreeObject, large))
	wantError(t, err, Terminal, ReasonTooLarge)
	_, _, err = packWith(t, Limits{}, 1, large).commit(t.Context(), plumbing.ComputeHash(plumbing.CommitObject, large))
	wantError(t, err, Terminal, ReasonTooLarge)
}

// TestTreesOfGitWaitForMemory has a large one decoded while everything is in use, and a small one, which need not wait.
func TestTreesOfGitWaitForMemory(t *testing.T) {
	memory := limit.New(64<<20, 64<<20)
	s := open(t, func(o *Options) { o.Memory = memory })
	small, large := treeOf(plumbing.ZeroHash, 1000), treeOf(plumbing.ZeroHash, 10_000)
	p := packWith(t, Limits{}, 2, small, large)
	if !memory.Acquire(t.Context(), "renders", 64<<20) {
		t.Fatal("nothing is free")
	}
	late, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	ctx, _ := s.withSpace(late)
	if entries, err := p.list(ctx, plumbing.ComputeHash(plumbing.TreeObject, small)); err != nil || len(entries) != 1001 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
	_, err := p.list(ctx, plumbing.ComputeHash(plumbing.TreeObject, large))
	wantError(t, err, Transient, ReasonStoreFull)
	memory.Release("renders", 64<<20)
	ctx, _ = s.withSpace(t.Context())
	if entries, err := p.list(ctx, plumbing.ComputeHash(plumbing.TreeObject, large)); err != nil || len(entries) != 10_001 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
	if !memory.Acquire(t.Context(), "renders", 64<<20) {
		t.Error("it was not given back")
	}
}

// TestPrivateRepositoriesAreNotShared has a commit of a private repository asked for by somebody whom a server tells its refs and nothing
// else: the server of his own CA and proxy may do that in the name of any.
func TestPrivateRepositoriesAreNotShared(t *testing.T) {
	r := newRepository(t)
	first, _ := r.sample()
	var packs atomic.Int32
	good := r.handler(&packs)
	web := serve(t, true, func(w http.ResponseWriter, q *http.Request) {
		if _, password, _ := q.BasicAuth(); password != "s3cret" && !strings.HasSuffix(q.URL.Path, "/info/refs") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		good(w, q)
	})
	s := open(t, nil)
	request := Request{URI: "git::" + web.URL + "/r.git?ref=" + first.String(), Auth: Auth{Username: "me", Password: "s3cret", CA: caOf(web)}}
	for range 2 {
		a, err := fetch(t, s, request)
		if err != nil {
			t.Fatal(err)
		}
		wantContents(t, a, sampled)
	}
	if packs.Load() != 1 {
		t.Errorf("%d packs for one commit", packs.Load())
	}
	request.Auth = Auth{CA: caOf(web)}
	_, err := fetch(t, s, request)
	wantError(t, err, Terminal, ReasonUnauthorized)
}

// packing opens a store, whose memory others may hold as well, and a pack.
func packing(t *testing.T) (*Store, *limit.Limit, *pack) {
	t.Helper()
	memory := limit.New(64<<20, 64<<20)
	s := open(t, func(o *Options) { o.Memory = memory })
	p, err := newPack(filepath.Join(t.TempDir(), "objects"), s.options.Limits)
	if err != nil {
		t.Fatal(err)
	}
	return s, memory, p
}

// TestWhoWaitsForTheDiskHoldsNoMemory has a large delta, while another fetch has its turn on the disk. If that
// waited for the memory of this one, neither would end.
func TestWhoWaitsForTheDiskHoldsNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, memory, p := packing(t)
		defer p.close()
		ctx, room := s.withSpace(limit.WithNamespace(t.Context(), "ns"))
		s.disk.Acquire(t.Context(), "other", s.options.Bytes)
		// The base and the delta fill what needs no turn on the disk, and the delta copies ten bytes.
		const size = freeDisk - 7
		base := make([]byte, size)
		hash := plumbing.ComputeHash(plumbing.BlobObject, base)
		delta := append(numbers(size, 10), 0x90, 10)
		end := make(chan error, 1)
		go func() { end <- p.read(ctx, bytes.NewReader(packOf(entryOf(3, base), entryOf(7, delta, hash[:]...)))) }()
		synctest.Wait()
		if !memory.TryAcquire("other", 64<<20) {
			t.Errorf("it holds memory while it waits: %d ends", len(end))
		} else {
			memory.Release("other", 64<<20)
		}
		s.disk.Release("other", s.options.Bytes)
		if err := <-end; err != nil || !room.granted {
			t.Errorf("%v; it had its turn: %t", err, room.granted)
		}
		room.end()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestWhoWaitsForAServerHoldsNoMemory has a server that stops in the middle of a delta of a large file, as long as it likes: others render
// meanwhile.
func TestWhoWaitsForAServerHoldsNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, memory, p := packing(t)
		defer p.close()
		ctx, room := s.withSpace(limit.WithNamespace(t.Context(), "ns"))
		base := make([]byte, 2*freeMemory)
		hash := plumbing.ComputeHash(plumbing.BlobObject, base)
		delta := append(numbers(2*freeMemory, 10), 0x90, 10)
		data := packOf(entryOf(3, base), entryOf(7, delta, hash[:]...))
		in, out := io.Pipe()
		end := make(chan error, 1)
		go func() { end <- p.read(ctx, in) }()
		half := len(data) - 20 - 8 // The checksum, and the end of the delta.
		if _, err := out.Write(data[:half]); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !memory.TryAcquire("other", 64<<20) {
			t.Error("it holds memory while it waits for its server")
		} else {
			memory.Release("other", 64<<20)
		}
		if _, err := out.Write(data[half:]); err != nil {
			t.Fatal(err)
		}
		_ = out.Close()
		if err := <-end; err != nil || len(p.byHash) != 2 {
			t.Errorf("%d objects, %v", len(p.byHash), err)
		}
		room.end()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
