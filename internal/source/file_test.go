package source

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// TestFilesAreFetchedAlone fetches a file that is no archive, once for its content.
func TestFilesAreFetchedAlone(t *testing.T) {
	const text = "kind: ConfigMap\n"
	var sent atomic.Int32
	var body atomic.Value
	body.Store(text)
	server := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		content := body.Load().(string) //nolint:forcetypeassert // nothing else is stored
		etag := `"` + sumOf([]byte(content))[:8] + `"`
		w.Header().Set("ETag", etag)
		if r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		sent.Add(1)
		_, _ = w.Write([]byte(content))
	})
	s := open(t, nil)
	uri := server.URL + "/v1.0.0/manifests.yaml"
	for range 2 {
		a, err := fetch(t, s, Request{URI: uri, File: true})
		if err != nil {
			t.Fatal(err)
		}
		wantContents(t, a, map[string]string{FileName: text})
		if a.Digest != "sha256:"+sumOf([]byte(text)) {
			t.Errorf("the digest is %s", a.Digest)
		}
	}
	if sent.Load() != 1 {
		t.Errorf("it was sent %d times", sent.Load())
	}
	pinned := uri + "#sha256:" + sumOf([]byte(text))
	if _, err := fetch(t, s, Request{URI: pinned, File: true}); err != nil || sent.Load() != 1 {
		t.Errorf("pinned, it was sent %d times: %v", sent.Load(), err)
	}
	body.Store("kind: Secret\n")
	a, err := fetch(t, s, Request{URI: uri, File: true})
	if err != nil {
		t.Fatal(err)
	}
	wantContents(t, a, map[string]string{FileName: "kind: Secret\n"})
	_, err = fetch(t, s, Request{URI: uri + "#sha256:" + strings.Repeat("0", 64), File: true})
	wantError(t, err, Terminal, ReasonDigestMismatch)
	// The same bytes are no archive, and what is known of the file does not change that.
	_, err = fetch(t, s, Request{URI: uri})
	wantError(t, err, Terminal, ReasonArchiveInvalid)
	_, err = fetch(t, s, Request{URI: "git::" + uri, File: true})
	wantError(t, err, Terminal, ReasonURIInvalid)
}

func TestFilesAreLimited(t *testing.T) {
	server := serve(t, false, static(make([]byte, 65)))
	s := open(t, func(o *Options) { o.Limits.File = 64 })
	_, err := fetch(t, s, Request{URI: server.URL + "/x.yaml", File: true})
	wantError(t, err, Terminal, ReasonTooLarge)
}

// TestFixedRequestsRefuseBranches holds that what a branch gave before does not answer a request that refuses branches, either.
func TestFixedRequestsRefuseBranches(t *testing.T) {
	r := newRepository(t)
	first, _ := r.sample()
	var packs atomic.Int32
	web := serve(t, false, r.handler(&packs))
	s := open(t, nil)
	uri := "git::" + web.URL + "/o/r.git"
	for tail, fine := range map[string]bool{
		"": false, "?ref=HEAD": false, "?ref=next": false, "?ref=refs/heads/v1": false,
		"?ref=v1": true, "?ref=refs/tags/v1": true, "?ref=" + first.String(): true,
	} {
		if _, err := fetch(t, s, Request{URI: uri + tail}); err != nil {
			t.Fatal(err)
		}
		_, err := fetch(t, s, Request{URI: uri + tail, Fixed: true, Before: true})
		if fine && err != nil {
			t.Errorf("%q: %v", tail, err)
		} else if !fine {
			wantError(t, err, Terminal, ReasonRefMoves)
		}
	}
}
