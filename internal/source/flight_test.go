package source

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"mlkeeper.dev/internal/limit"
)

// bulk is a text that no compression makes shorter. With it a fetch needs its turn on the disk, and has so much left then that no buffer of a
// connection holds it.
func bulk() string {
	out := make([]byte, freeDisk+24<<20)
	_, _ = rand.Read(out) // never fails
	return string(out)
}

// waitingFetches begins a fetch for each namespace, and returns when all of them wait for their turn on the disk, which another one has.
func waitingFetches(t *testing.T, s *Store, r Request, namespaces ...string) (end chan *Artifact) {
	t.Helper()
	if !s.disk.Acquire(t.Context(), "other", s.options.Bytes) {
		t.Fatal("nothing is free")
	}
	end = make(chan *Artifact, len(namespaces))
	for _, namespace := range namespaces {
		go func() {
			a, err := s.Fetch(limit.WithNamespace(t.Context(), namespace), r)
			if err != nil {
				t.Errorf("%s: %v", namespace, err)
			}
			end <- a
		}()
	}
	for begun := time.Now(); standing(s) < len(namespaces); {
		if time.Since(begun) > time.Minute || t.Failed() {
			t.Fatal("they do not wait")
		}
	}
	return end
}

// standing counts the fetches whose time stands still.
func standing(s *Store) (count int) {
	ends := map[*flight]time.Time{}
	look := func(f func(*flight, time.Time)) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, under := range s.flights {
			end, _ := under.time.Deadline()
			f(under, end)
		}
	}
	look(func(f *flight, end time.Time) { ends[f] = end })
	time.Sleep(20 * time.Millisecond)
	look(func(f *flight, end time.Time) {
		if before, known := ends[f]; known && end.After(before) {
			count++
		}
	})
	return count
}

// whole counts the answers of a handler that were read to their end.
type whole struct {
	http.Handler
	asked, read atomic.Int32
}

func (h *whole) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.asked.Add(1)
	out := &watched{ResponseWriter: w}
	h.Handler.ServeHTTP(out, r)
	if out.bytes > freeDisk && !out.broken {
		h.read.Add(1)
	}
}

type watched struct {
	http.ResponseWriter
	bytes  int
	broken bool
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.bytes += n
	w.broken = w.broken || err != nil
	return n, err
}

// parts serves a repository whose branch main has a text in eight files. Its pack is written here, since go-git's server would look for what the
// files have in common.
func parts(t *testing.T, text string) http.Handler {
	t.Helper()
	repo := newRepository(t)
	length := len(text) / 8
	var files []object.TreeEntry
	var pack [][]byte
	for i := range 8 {
		part := text[i*length : (i+1)*length]
		files = append(files, repo.entry(fmt.Sprint(i), part))
		pack = append(pack, entryOf(byte(plumbing.BlobObject), []byte(part)))
	}
	tree := repo.tree(files...)
	commit := repo.commit(tree)
	repo.ref("refs/heads/main", commit)
	for _, hash := range []plumbing.Hash{tree, commit} {
		o := repo.storage.Objects[hash]
		content, err := o.Reader()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}
		pack = append(pack, entryOf(byte(o.Type()), raw))
	}
	answer := append([]byte("0008NAK\n"), packOf(pack...)...)
	return failing(repo.handler(new(atomic.Int32)), func(w http.ResponseWriter) { _, _ = w.Write(answer) })
}

// TestWhatOthersFetchedMeanwhileIsNotFetchedAgain has namespaces with one source wait for their turn after a start with an empty store: the
// first one brings it for all.
func TestWhatOthersFetchedMeanwhileIsNotFetchedAgain(t *testing.T) {
	text := bulk()
	data := tarball(t, file("a", text))
	registry := artifactOf(map[string][]byte{fluxLayer: data}, fluxLayer)
	tagged := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		if r.Header.Get("If-None-Match") == `"1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write(data)
	}
	for name, c := range map[string]struct {
		handler http.Handler
		uri     string
		digest  string
	}{
		"an archive with a digest": {static(data), "%s/x", sumOf(data)},
		"an archive with an ETag":  {http.HandlerFunc(tagged), "%s/x", ""},
		"a branch":                 {parts(t, text), "git::%s/o/r.git?ref=main", ""},
		"an artifact":              {registry, "oci://%s/o/r:v1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			counts := &whole{Handler: c.handler}
			server := serve(t, true, counts.ServeHTTP)
			s := open(t, nil)
			uri := server.URL
			if strings.HasPrefix(c.uri, "oci:") {
				uri = strings.TrimPrefix(uri, "https://")
			}
			request := Request{URI: fmt.Sprintf(c.uri, uri), Digest: c.digest, Auth: Auth{CA: caOf(server)}}
			end := waitingFetches(t, s, request, "one", "two", "three")
			s.disk.Release("other", s.options.Bytes)
			for range 3 {
				if a := <-end; a != nil {
					a.Close()
				}
			}
			server.Close() // The handlers have ended then.
			if got := counts.read.Load(); got != 1 || len(s.entries) != 1 || s.reserved != 0 {
				t.Errorf("it was read %d times, for %d trees, and %d bytes stay reserved", got, len(s.entries), s.reserved)
			}
		})
	}
}

// TestAConnectionThatDiesMeanwhileCostsNoTurn has a server give up a download that waits for its turn on the disk.
func TestAConnectionThatDiesMeanwhileCostsNoTurn(t *testing.T) {
	data := tarball(t, file("a", bulk()))
	var asked atomic.Int32
	die := make(chan bool)
	server := serve(t, false, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) > 1 {
			_, _ = w.Write(data)
			return
		}
		_, _ = w.Write(data[:freeDisk+1<<20])
		w.(http.Flusher).Flush() //nolint:forcetypeassert // it is one of a server
		<-die
		panic(http.ErrAbortHandler)
	})
	s := open(t, nil)
	end := waitingFetches(t, s, Request{URI: server.URL + "/x"}, "ns")
	next := make(chan bool)
	go func() {
		// It is behind the fetch.
		s.disk.Acquire(t.Context(), "next", s.options.Bytes)
		close(next)
	}()
	close(die)
	time.Sleep(100 * time.Millisecond)
	s.disk.Release("other", s.options.Bytes)
	if a := <-end; a != nil {
		a.Close()
	}
	<-next
	s.disk.Release("next", s.options.Bytes)
	if asked.Load() != 2 || s.reserved != 0 {
		t.Errorf("the server was asked %d times, and %d bytes stay reserved", asked.Load(), s.reserved)
	}
}
