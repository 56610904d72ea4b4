package source

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"mlkeeper.dev/internal/limit"
	"mlkeeper.dev/internal/manifest/worker"
)

// TestAnIndexIsReadOnce asks for a chart again, of a server that answers conditional requests as net/http does. While there is no memory
// for a worker, what would have to be read again is not found.
func TestAnIndexIsReadOnce(t *testing.T) {
	archive := forge(t)
	index := func(more string) []byte {
		return []byte("entries: {x: [{version: 1.0.0, urls: [x.tgz]}" + more + "]}")
	}
	for name, c := range map[string]struct{ etag, modified bool }{"ETag": {etag: true}, "Last-Modified": {modified: true}, "neither": {}} {
		t.Run(name, func(t *testing.T) {
			content, version, since := index(""), "one", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			var codes []int
			web := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasSuffix(r.URL.Path, "/index.yaml") {
					_, _ = w.Write(archive)
					return
				}
				if c.etag {
					w.Header().Set("ETag", `"`+version+`"`)
				}
				modified := since
				if !c.modified {
					modified = time.Time{}
				}
				recorded := &recordingWriter{ResponseWriter: w, code: http.StatusOK}
				http.ServeContent(recorded, r, "index.yaml", modified, bytes.NewReader(content))
				codes = append(codes, recorded.code)
			})
			memory := limit.New(worker.Share, worker.Share)
			s := open(t, func(o *Options) { o.Workers = &worker.Pool{Memory: memory} })
			r := ChartRequest{Repository: web.URL, Name: "x", Version: "1.x", Auth: Auth{CA: caOf(web)}}
			ask := func() (string, error) {
				a, err := s.FetchChart(t.Context(), r)
				if err != nil {
					return "", err
				}
				a.Close()
				return fmt.Sprint(codes), nil
			}
			if _, err := ask(); err != nil {
				t.Fatal(err)
			}
			known := c.etag || c.modified
			if known {
				if !memory.Acquire(t.Context(), "", worker.Share) {
					t.Fatal("there is no memory")
				}
			}
			got, err := ask()
			if want := map[bool]string{true: "[200 304]", false: "[200 200]"}[known]; err != nil || got != want {
				t.Errorf("the server answered %s, not %s: %v", got, want, err)
			}
			if known {
				memory.Release("", worker.Share)
			}
			// A newer index is read, and so is the same one for another chart or with other credentials.
			content, version, since = index(", {version: 1.1.0, urls: [y.tgz]}"), "two", since.Add(time.Hour)
			codes = nil
			for _, change := range []func(){func() {}, func() { r.Version = "1.1.0" }, func() { r.Auth.Token = "s3cret" }} {
				change()
				if _, err := ask(); err != nil {
					t.Error(err)
				}
			}
			if fmt.Sprint(codes) != "[200 200 200]" {
				t.Errorf("the server answered %v", codes)
			}
		})
	}
}

// TestIndexesShareMemory: what many servers send at once does not add up, and a namespace leaves room for others.
func TestIndexesShareMemory(t *testing.T) {
	asked := 0
	web := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		if asked++; strings.HasSuffix(r.URL.Path, "/index.yaml") {
			_, _ = w.Write([]byte("entries: {x: [{version: 1.0.0, urls: [x.tgz]}]}"))
			return
		}
		_, _ = w.Write(forge(t))
	})
	s := open(t, nil)
	r := ChartRequest{Repository: web.URL, Name: "x", Version: "1.0.0", Auth: Auth{CA: caOf(web)}}
	for _, namespace := range []string{"a", "b"} {
		if !s.indexes.Acquire(t.Context(), namespace, memoryOfIndexes) {
			t.Fatal("one namespace takes all")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := s.FetchChart(ctx, r)
	wantError(t, err, Transient, ReasonStoreFull)
	if asked > 0 {
		t.Error("the server is asked")
	}
	s.indexes.Release("a", memoryOfIndexes)
	a, err := s.FetchChart(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
}

type recordingWriter struct {
	http.ResponseWriter
	code int
}

func (w *recordingWriter) WriteHeader(code int) {
	w.code = code
	w.ResponseWriter.WriteHeader(code)
}

// TestIndexesAreRememberedWithinBounds: those of many repositories, with many charts each, and long addresses.
func TestIndexesAreRememberedWithinBounds(t *testing.T) {
	var c chartIndexes
	now, of := time.Unix(0, 0), validators{etag: "one"}
	for i := range 3 * maxIndexes {
		now = now.Add(time.Second)
		c.put(fmt.Sprint(i), "x", place{link: "x"}, of, now)
		if at, _ := c.find("0", "x", now); at.link == "" {
			t.Fatalf("one that is in use is forgotten after %d others", i)
		}
	}
	for i := range 3 * maxAnswers {
		c.put("0", fmt.Sprint("chart", i), place{link: "x"}, of, now)
	}
	c.put("0", "long", place{link: strings.Repeat("x", maxURI+1)}, of, now)
	c.put("unnamed", "x", place{link: "x"}, validators{}, now)
	if len(c.known) != maxIndexes || len(c.known["0"].answers) > maxAnswers || c.known["unnamed"] != nil {
		t.Errorf("%d indexes, %d answers", len(c.known), len(c.known["0"].answers))
	}
	if _, of := c.find("0", "long", now); of != (validators{}) {
		t.Error("a long address is remembered")
	}
	// What was found in another index than the one that is there now is no answer.
	c.put("0", "new", place{link: "x"}, validators{etag: "two"}, now)
	if _, of := c.find("0", fmt.Sprint("chart", 3*maxAnswers-1), now); of != (validators{}) {
		t.Error("an answer of another index is given")
	}
	const at = "Thu, 01 Jan 2026 00:00:00 GMT"
	for _, header := range []http.Header{
		{"Etag": {strings.Repeat("x", maxETag+1)}, "Last-Modified": {"a\x01b"}, "Date": {at}},
		{"Last-Modified": {at}, "Date": {at}},
		{"Last-Modified": {at}},
	} {
		if got := validatorsOf(header); got != (validators{}) {
			t.Errorf("sent back would be %+v", got)
		}
	}
}
