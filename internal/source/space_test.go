package source

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mlkeeper.dev/internal/limit"
)

// TestLargeFetchesTakeTurns has several archives fetched at once that leave no space for each other. All of them end, small ones as well,
// and nothing stays reserved.
func TestLargeFetchesTakeTurns(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcdef"), (freeDisk+4<<20)/16)
	server := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/small") {
			_, _ = w.Write(forge(t))
			return
		}
		_, _ = w.Write(large)
	})
	s := open(t, func(o *Options) { o.Bytes, o.Limits.Archive, o.Limits.Unpacked = 192<<20, 30<<20, 30<<20 })
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			// It is no archive, so that it is read to its end and refused.
			ctx := limit.WithNamespace(t.Context(), fmt.Sprint("ns", i%2))
			_, err := s.Fetch(ctx, Request{URI: fmt.Sprintf("%s/large%d", server.URL, i)})
			wantError(t, err, Terminal, ReasonArchiveInvalid)
		})
	}
	all.Go(func() {
		a, err := s.Fetch(t.Context(), Request{URI: server.URL + "/small"})
		if err != nil {
			t.Error(err)
			return
		}
		a.Close()
	})
	all.Wait()
	if s.reserved != 0 {
		t.Errorf("%d bytes stay reserved", s.reserved)
	}
}

// TestALargeFetchWaitsForSpace has one while another one has all the space, and one that no space is left for.
func TestALargeFetchWaitsForSpace(t *testing.T) {
	s := open(t, func(o *Options) { o.Bytes = 256 << 20 })
	first, cancel := context.WithCancel(t.Context())
	ctx, room := s.withSpace(first)
	if err := room.take(ctx, freeDisk); err != nil || room.granted {
		t.Fatal(err, room.granted)
	}
	if err := room.take(ctx, 1); err != nil || !room.granted || s.reserved != diskStep {
		t.Fatal(err, s.reserved)
	}
	late, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	ctx2, second := s.withSpace(late)
	wantError(t, second.take(ctx2, freeDisk+1), Transient, ReasonStoreFull)
	room.end()
	cancel()
	ctx3, third := s.withSpace(t.Context())
	wantError(t, third.take(ctx3, s.options.Bytes+1), Transient, ReasonStoreFull)
	third.end()
	if s.reserved != 0 {
		t.Errorf("%d bytes stay reserved", s.reserved)
	}
}

// TestALargeFetchMakesRoom has trees dropped that nobody uses.
func TestALargeFetchMakesRoom(t *testing.T) {
	s := open(t, func(o *Options) { o.Bytes = 128<<20 + 4*block })
	a := put(t, s, "one")
	a.Close()
	b := put(t, s, "two")
	defer b.Close()
	ctx, room := s.withSpace(t.Context())
	defer room.end()
	if err := room.take(ctx, 128<<20); err != nil || there(s, a.ID) || !there(s, b.ID) {
		t.Errorf("%v, one is there: %t, two: %t", err, there(s, a.ID), there(s, b.ID))
	}
}

// TestDeltasWaitForMemory has one of a large object while everything is in use.
func TestDeltasWaitForMemory(t *testing.T) {
	memory := limit.New(64<<20, 64<<20)
	s := open(t, func(o *Options) { o.Memory = memory })
	if !memory.Acquire(t.Context(), "renders", 64<<20) {
		t.Fatal("nothing is free")
	}
	late, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	ctx, room := s.withSpace(late)
	if release, err := room.hold(ctx, freeMemory); err != nil {
		t.Error(err)
	} else {
		release()
	}
	_, err := room.hold(ctx, freeMemory+1)
	wantError(t, err, Transient, ReasonStoreFull)
	memory.Release("renders", 64<<20)
	release, err := room.hold(t.Context(), 200<<20)
	if err != nil {
		t.Fatal(err)
	}
	release()
	if !memory.Acquire(t.Context(), "renders", 64<<20) {
		t.Error("it was not given back")
	}
}

// TestTwoProcessesShareAFolder has a second one come while the first one fetches, go, and the first one go before it.
func TestTwoProcessesShareAFolder(t *testing.T) {
	dir := t.TempDir()
	start := func() *Store {
		s, err := New(Options{Dir: dir, Clock: newClock(), Key: []byte("key")})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := start()
	half := filepath.Join(dir, temporary+"under-way")
	if err := os.Mkdir(half, 0o700); err != nil {
		t.Fatal(err)
	}
	a := put(t, first, "one")
	defer a.Close()
	second := start()
	if _, err := os.Stat(half); err != nil || there(second, a.ID) {
		t.Errorf("%v, and the second process has the tree: %t", err, there(second, a.ID))
	}
	b := put(t, second, "two")
	wantContents(t, b, map[string]string{"a": "two"})
	third := start() // It ends without a word.
	_ = third.locked.Close()
	_ = first.Close()
	fourth := start()
	wantContents(t, b, map[string]string{"a": "two"})
	if left, err := filepath.Glob(filepath.Join(dir, ownPrefix+"*")); err != nil || len(left) != 1 || left[0] != second.options.Dir {
		t.Errorf("%v, %v: what is used stays, and what ended goes", left, err)
	}
	if !there(fourth, a.ID) {
		t.Error("the tree of the first process is gone")
	}
	b.Close()
	_, _ = second.Close(), fourth.Close()
	if _, err := os.Stat(second.options.Dir); !os.IsNotExist(err) {
		t.Errorf("a folder of its own is left: %v", err)
	}
}

// TestWaitingForSpaceCountsAgainstNoTimeout has fetches wait for their turn on the disk for longer than they, and who asks for them, may take.
// What has no turn is not given up: it would begin anew, and lose its place.
func TestWaitingForSpaceCountsAgainstNoTimeout(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcdef"), (freeDisk+4<<20)/16)
	server := serve(t, false, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(large) })
	s := open(t, func(o *Options) { o.Limits.Total = 5 * time.Second })
	if !s.disk.Acquire(t.Context(), "other", s.options.Bytes) {
		t.Fatal("nothing is free")
	}
	waits, end := make(chan bool), make(chan error)
	ctx, cancel := limit.WithTimeout(limit.WithNamespace(t.Context(), "ns"), s.options.Limits.Total, func() { close(waits) })
	defer cancel()
	go func() {
		_, err := s.Fetch(ctx, Request{URI: server.URL + "/large"})
		end <- err
	}()
	select {
	case err := <-end:
		t.Fatalf("it ended before its turn: %v", err)
	case <-waits: // It has waited for as long as it may take.
	}
	s.disk.Release("other", s.options.Bytes)
	// It is no archive, so that it is read to its end and refused.
	wantError(t, <-end, Terminal, ReasonArchiveInvalid)
}

// TestWhoJoinsAFetchWaitsForItsTurn has one caller come while the fetch of another one waits for its turn, who goes before it has it. The time of
// none of them passes, and the fetch goes on for the one that is left.
func TestWhoJoinsAFetchWaitsForItsTurn(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcdef"), (freeDisk+4<<20)/16)
	var asked atomic.Int32
	server := serve(t, false, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write(large)
	})
	s := open(t, func(o *Options) { o.Limits.Total = 5 * time.Second })
	if !s.disk.Acquire(t.Context(), "other", s.options.Bytes) {
		t.Fatal("nothing is free")
	}
	ask := func(patience time.Duration) (waits chan bool, end chan error, leave context.CancelFunc) {
		waits, end = make(chan bool), make(chan error, 1)
		ctx, cancel := limit.WithTimeout(limit.WithNamespace(t.Context(), "ns"), patience, func() { close(waits) })
		t.Cleanup(cancel)
		go func() {
			_, err := s.Fetch(ctx, Request{URI: server.URL + "/large"})
			end <- err
		}()
		return waits, end, cancel
	}
	first, _, leave := ask(2 * time.Second)
	<-first // Its fetch waits.
	second, end, _ := ask(time.Second)
	select {
	case err := <-end:
		t.Fatalf("who joined ended before the turn: %v", err)
	case <-second: // It has waited for as long as it may take.
	}
	leave()
	time.Sleep(s.options.Limits.Total + time.Second)
	s.disk.Release("other", s.options.Bytes)
	// It is no archive, so that it is read to its end and refused.
	wantError(t, <-end, Terminal, ReasonArchiveInvalid)
	if got := asked.Load(); got != 1 {
		t.Errorf("the server was asked %d times", got)
	}
}

// TestWhatIsInlineWaitsForSpace has an archive of a ConfigMap wait in the same way.
func TestWhatIsInlineWaitsForSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil)
		s.disk.Acquire(t.Context(), "other", s.options.Bytes)
		time.AfterFunc(time.Hour, func() { s.disk.Release("other", s.options.Bytes) })
		ctx, cancel := limit.WithTimeout(limit.WithNamespace(t.Context(), "ns"), 30*time.Minute, nil)
		defer cancel()
		_, err := s.Unpack(ctx, "large", bytes.Repeat([]byte("0123456789abcdef"), (freeDisk+4<<20)/16))
		wantError(t, err, Terminal, ReasonArchiveInvalid)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
