package source

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// member is an entry of an archive; a type of zero is a file.
type member struct {
	name, body, link string
	kind             byte
}

func file(name, body string) member { return member{name: name, body: body} }
func folder(name string) member     { return member{name: name, kind: tar.TypeDir} }

// tarball packs entries as they are, however wrong.
func tarball(t testing.TB, members ...member) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	for _, m := range members {
		h := &tar.Header{Name: m.name, Typeflag: m.kind, Linkname: m.link, Size: int64(len(m.body)), Mode: 0o4777}
		if m.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		if m.kind == tar.TypeXGlobalHeader {
			h = &tar.Header{Typeflag: m.kind, Name: m.name, PAXRecords: map[string]string{"comment": m.body}}
			m.body = ""
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(m.body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// forge is an archive as GitHub makes it.
func forge(t testing.TB) []byte {
	return tarball(t,
		member{name: "pax_global_header", kind: tar.TypeXGlobalHeader, body: "0123456789012345678901234567890123456789"},
		folder("manifests-1.2.0/"), file("manifests-1.2.0/README.md", "read me"),
		folder("manifests-1.2.0/kfdef/"), file("manifests-1.2.0/kfdef/a.yaml", "a: 1"))
}

var forged = map[string]string{"README.md": "read me", "kfdef/a.yaml": "a: 1"}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

func newClock() *clocktesting.FakePassiveClock {
	return clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
}

// opened are the stores that were opened last, by their folders.
var opened sync.Map

// open opens a store that may reach this machine, as the servers of tests are on it.
func open(t testing.TB, change func(*Options)) *Store {
	t.Helper()
	o := Options{Dir: filepath.Join(t.TempDir(), "store"), Allow: loopback, Policy: Policy{AllowHTTP: true}, Clock: newClock(), Key: []byte("key")}
	if change != nil {
		change(&o)
	}
	// A store that had the folder is of a process that ended without a word.
	if before, found := opened.Load(o.Dir); found {
		_ = before.(*Store).locked.Close() //nolint:forcetypeassert // nothing else is in it
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	opened.Store(o.Dir, s)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// serve starts a server with a handler, and TLS if secure.
func serve(t testing.TB, secure bool, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	// The handshakes that fail here are meant to.
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	if secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server
}

func static(data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) }
}

func caOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// fetch fetches, with the artifact closed at the end of the test.
func fetch(t testing.TB, s *Store, r Request) (*Artifact, error) {
	t.Helper()
	a, err := s.Fetch(context.Background(), r)
	if err == nil {
		t.Cleanup(a.Close)
	}
	return a, err
}

// contents are the files of an artifact.
func contents(t testing.TB, a *Artifact) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(a.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(a.FS(), name)
		out[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func wantContents(t testing.TB, a *Artifact, want map[string]string) {
	t.Helper()
	if got := contents(t, a); !maps.Equal(got, want) {
		t.Errorf("holds %v, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// wantError checks the class and reason of an error, and that it tells none of the secrets of these tests.
func wantError(t testing.TB, err error, class Class, reason string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v, want one with the reason %s", err, reason)
	}
	if e.Class != class || e.Reason != reason {
		t.Errorf("%s/%s, want %s/%s: %v", e.Class, e.Reason, class, reason, err)
	}
	if e.Message == "" || strings.Contains(err.Error(), "%!") || (class == Terminal && e.Remedy == "") {
		t.Errorf("the error says too little: %q", err)
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("the error tells a secret: %q", err)
	}
}
