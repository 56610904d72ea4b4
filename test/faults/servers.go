package faults

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mlkeeper.dev/internal/pki"
	"mlkeeper.dev/internal/source"
	"mlkeeper.dev/test/fixture"
)

// servers stands for the resource in a plan whose cause stands on the server of a workload.
const servers = "servers"

const (
	// patienceWithServers is how long operators wait for a server here, so that the time of a plan is enough for several attempts.
	patienceWithServers = 2 * time.Second
	// late is how long a late server takes: longer than an operator waits.
	late = 3 * patienceWithServers
	// perAttempt is how many requests one attempt may send to a server: a fetch follows five redirects, and two pods of a Tfserv are asked.
	perAttempt = 6
)

// server is the one that a workload depends on: it has archives and charts, or answers as the model servers in pods do.
type server struct {
	// how is the cause that stands on the server now; empty while it answers.
	how atomic.Value
	// asked counts the requests, and note adds them to the timeline of the run.
	asked atomic.Int64
	note  func(format string, args ...any)

	http *httptest.Server

	mu    sync.Mutex
	files map[string][]byte
	// changed is closed when the cause ends.
	changed chan struct{}
}

// certificates are those that servers have while they are trusted and while they are not, and the bundle that trusts the former.
var certificates = sync.OnceValue(func() (out struct {
	by      map[bool]tls.Certificate
	trusted string
},
) {
	out.by = map[bool]tls.Certificate{}
	for _, trusted := range []bool{true, false} {
		authority, err := pki.NewAuthority(rand.Reader, time.Now(), "faults")
		if err != nil {
			panic(err)
		}
		pair, err := pki.NewServer(rand.Reader, time.Now(), authority, "server", nil, []net.IP{net.IPv4(127, 0, 0, 1)})
		if err != nil {
			panic(err)
		}
		if out.by[trusted], err = tls.X509KeyPair(pair.CertPEM, pair.KeyPEM); err != nil {
			panic(err)
		}
		if trusted {
			out.trusted = string(authority.CertPEM)
		}
	}
	return out
})

// newServer starts a server.
func newServer(note func(format string, args ...any)) *server {
	s := &server{note: note, files: map[string][]byte{}, changed: make(chan struct{})}
	s.how.Store(Cause(""))
	s.http = httptest.NewUnstartedServer(s)
	s.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.http.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		trusted := s.now() != ServerUntrusted
		if !trusted {
			s.asked.Add(1)
		}
		return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificates().by[trusted]}}, nil
	}}
	s.http.StartTLS()
	return s
}

// now is the cause that stands on the server.
func (s *server) now() Cause {
	how, _ := s.how.Load().(Cause)
	return how
}

// set has a cause stand on the server; the empty one ends it.
func (s *server) set(how Cause) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.how.Store(how)
	if how == "" {
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// over is closed when the cause that stands now ends.
func (s *server) over() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// put has the server serve a file from now on.
func (s *server) put(path string, content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[path] = content
}

// file is a file of the server; nil where it has none.
func (s *server) file(path string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[path]
}

// close ends the server.
func (s *server) close() {
	s.set("")
	s.http.CloseClientConnections()
	s.http.Close()
}

// wait waits until the cause ends, the client has gone or the time is over.
func (s *server) wait(ctx context.Context, most time.Duration) {
	select {
	case <-ctx.Done():
	case <-s.over():
	case <-time.After(most):
	}
}

// ServeHTTP serves the files, or does what the cause says.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	s.note("the server is asked for %s", r.URL.Path)
	content := s.file(r.URL.Path)
	switch s.now() {
	case ServerHangs:
		s.wait(r.Context(), time.Hour)
	case ServerLate:
		s.wait(r.Context(), late)
	case ServerSlow:
		// It sends the beginning, and the rest when the cause ends.
		n := len(content) / 2
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content[:n])
		_ = http.NewResponseController(w).Flush()
		s.wait(r.Context(), time.Hour)
		content = content[n:]
	case ServerGarbage:
		content = []byte(strings.Repeat("<html>this is no such content</html>\n", 100))
	case ServerRedirects:
		http.Redirect(w, r, r.URL.Path+"?again="+fmt.Sprint(s.asked.Load()), http.StatusFound)
		return
	}
	if content == nil {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(content)
}

// RoundTrip answers in the place of a model server in a pod, for pods of simulated nodes answer nobody.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked.Add(1)
	s.note("a model server is asked for %s", r.URL.Path)
	answer, err := fixture.Serving(fixture.TutorialVersion).RoundTrip(r)
	switch s.now() {
	case ServerHangs:
		s.wait(r.Context(), time.Hour)
	case ServerLate:
		s.wait(r.Context(), late)
	case ServerSlow:
		answer.Body = &slowBody{ReadCloser: answer.Body, wait: func() { s.wait(r.Context(), time.Hour) }, ctx: r.Context()}
	case ServerGarbage:
		answer.Body = io.NopCloser(strings.NewReader("<html>this is no such content</html>\n"))
	case ServerRedirects:
		answer.StatusCode = http.StatusFound
		answer.Header.Set("Location", r.URL.String())
	}
	if r.Context().Err() != nil {
		return nil, r.Context().Err()
	}
	return answer, err
}

// slowBody is an answer that comes when the cause ends.
type slowBody struct {
	io.ReadCloser
	wait func()
	ctx  context.Context //nolint:containedctx // It is the request's, which bounds the answer, too.
}

// Read waits before it reads.
func (b *slowBody) Read(p []byte) (int, error) {
	if b.wait(); b.ctx.Err() != nil {
		return 0, b.ctx.Err()
	}
	return b.ReadCloser.Read(p)
}

// local fetches from the servers of workloads; everything else is out of reach.
func local(uri string) bool { return strings.HasPrefix(uri, "https://127.0.0.1:") }

// limits are those of fetches here.
var limits = source.Limits{Dial: patienceWithServers, Header: patienceWithServers}

// serve has a cause stand on the server of the workload.
func (r *run) serve(how Cause) (func() error, error) {
	r.server.set(how)
	end := func() error {
		r.server.set("")
		return nil
	}
	if r.plan.Standing.Early {
		return end, nil
	}
	for _, cr := range r.history.all(r.kind.Resource) {
		if err := r.ask(cr); err != nil {
			return end, err
		}
	}
	return end, nil
}

// pestered says that the server was asked more often in the window than attempts are due.
func (r *run) pestered(before int64) []Finding {
	if r.server == nil {
		return nil
	}
	n, limit := r.server.asked.Load()-before, int64(perAttempt*pauses(r.suite.Settle, r.suite.Window))
	if n <= limit {
		return nil
	}
	return []Finding{{Oracle: "O8", Text: fmt.Sprintf("the server was sent %d requests in %s; at most %d are due", n, r.suite.Window, limit)}}
}

// asks is how many requests the server of the workload has received.
func (r *run) asks() int64 {
	if r.server == nil {
		return 0
	}
	return r.server.asked.Load()
}
