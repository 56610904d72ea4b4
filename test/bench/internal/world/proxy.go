package world

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// Request is one write as it was sent: what a baseline sends again.
type Request struct {
	Method, URI, ContentType string
	Body                     []byte
}

// Path is the path of the request without its query.
func (r Request) Path() string {
	path, _, _ := strings.Cut(r.URI, "?")
	return path
}

// Recorder is a proxy in front of the API server that keeps every write that passes it, byte for byte. The audit log
// has no bodies, and what a stored object says was never sent by anybody.
type Recorder struct {
	URL string

	server *httptest.Server
	mu     sync.Mutex
	writes []Request
}

// Record starts a proxy whose callers are an identity: client-go sends no token over plain HTTP, so the proxy adds it.
func (id *Identity) Record() (*Recorder, error) {
	target, err := url.Parse(id.Config.Host)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(id.Config)
	if err != nil {
		return nil, err
	}
	r := &Recorder{}
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		// When the operator ends, its watches do, which is no news.
		ErrorLog: log.New(io.Discard, "", 0),
		Rewrite:  func(p *httputil.ProxyRequest) { p.SetURL(target) },
	}
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodGet {
			body, err := io.ReadAll(req.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			req.Body = io.NopCloser(bytes.NewReader(body))
			r.mu.Lock()
			r.writes = append(r.writes, Request{req.Method, req.URL.RequestURI(), req.Header.Get("Content-Type"), body})
			r.mu.Unlock()
		}
		proxy.ServeHTTP(prompt{w}, req)
	}))
	r.URL = r.server.URL
	return r, nil
}

// prompt sends the head of an answer at once. A proxy keeps it until the first byte of the body comes, which a watch on
// nothing waits for in vain.
type prompt struct{ http.ResponseWriter }

// WriteHeader sends the head.
func (p prompt) WriteHeader(code int) {
	p.ResponseWriter.WriteHeader(code)
	p.Flush()
}

// Flush sends what was written.
func (p prompt) Flush() {
	if f, ok := p.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Writes returns what was written so far, in its order.
func (r *Recorder) Writes() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Request(nil), r.writes...)
}

// Stop ends the proxy.
func (r *Recorder) Stop() {
	r.server.CloseClientConnections()
	r.server.Close()
}
