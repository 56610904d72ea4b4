package tfserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
)

// inProcess are the periods of a server within a test.
const inProcess = 10 * time.Millisecond

// Server is a server within the process of a test, which a client reaches by its transport at every address.
type Server struct {
	*Core
	// Asked counts the requests.
	Asked atomic.Int64
	port  int32
	rest  http.Handler
}

// InProcess starts a server with flags and a model config, and waits until the initial load is over, as the ports of the real one do.
func InProcess(t testing.TB, store Store, config string, args ...string) *Server {
	t.Helper()
	options, unknown, err := ParseFlags(args)
	if err != nil || len(unknown) > 0 {
		t.Fatalf("the flags %q: %v, unknown %q", args, err, unknown)
	}
	c := NewCore(options, store, io.Discard)
	c.pollEvery, c.manageEvery = inProcess, inProcess
	t.Cleanup(c.Close)
	s := &Server{Core: c, port: options.RESTPort, rest: c.REST("")}
	if err := s.Apply(config); err != nil {
		t.Fatalf("the server does not start: %v", err)
	}
	return s
}

// Apply reloads a model config given as text proto.
func (s *Server) Apply(config string) error {
	m := message("ModelServerConfig")
	if err := prototext.Unmarshal([]byte(config), m); err != nil {
		return err
	}
	return s.Reload(m)
}

// RoundTrip implements http.RoundTripper: any address has the server, at its port for REST only.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Port() != strconv.Itoa(int(s.port)) {
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	s.Asked.Add(1)
	w := &recorder{header: http.Header{}, code: http.StatusOK}
	s.rest.ServeHTTP(w, r)
	return &http.Response{
		StatusCode: w.code, Status: http.StatusText(w.code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.header,
		Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// recorder keeps an answer.
type recorder struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(code int)        { r.code = code }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
