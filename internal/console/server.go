package console

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

//go:embed web
var web embed.FS

const (
	// heartbeat is how often a stream without news says that it lives.
	heartbeat = 15 * time.Second
	// coalesce is how long changes are gathered before they are sent.
	coalesce = 250 * time.Millisecond
	// maxBody bounds a request, in bytes.
	maxBody = 16 << 10
	// maxStreams bounds the streams at once.
	maxStreams = 32
	// headerTimeout bounds how long a client may take to ask.
	headerTimeout = 10 * time.Second
)

// Server serves the page.
type Server struct {
	source  Source
	actions bool
	feeds   *feeds
	// token authorizes requests. code is exchanged for it once: the address with the code is seen by others, in the list of processes.
	token string

	mu      sync.Mutex
	code    string
	streams int
}

// New returns a server whose views end with the context. With actions, custom resources can be suspended, resumed and reconciled.
func New(ctx context.Context, source Source, actions bool) *Server {
	return &Server{
		source: source, actions: actions, feeds: &feeds{ctx: ctx, open: map[string]*openFeed{}}, token: rand.Text() + rand.Text(), code: rand.Text() + rand.Text(),
	}
}

// Serve serves until the context ends, and calls ready with the address to open.
func (s *Server) Serve(ctx context.Context, listener net.Listener, ready func(address string)) error {
	host := listener.Addr().String()
	server := &http.Server{
		Handler: s.handler(host), ReadHeaderTimeout: headerTimeout, MaxHeaderBytes: maxBody,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	ready("http://" + host + "/#" + s.code)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// handler answers requests to one host, which is an address with a port.
func (s *Server) handler(host string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", asset("index.html"))
	for _, name := range assets() {
		mux.HandleFunc("GET /"+name, asset(name))
	}
	mux.HandleFunc("POST /api/session", s.session)
	api := map[string]func(*http.Request) (any, error){
		"GET /api/about": func(r *http.Request) (any, error) {
			return map[string]any{"actions": s.actions, "cluster": s.source.About(r.Context())}, nil
		},
		"GET /api/explain": func(r *http.Request) (any, error) { return s.source.Explain(r.Context(), refOf(r)) },
		"GET /api/object":  func(r *http.Request) (any, error) { return s.source.Object(r.Context(), refOf(r)) },
		"POST /api/action": s.act,
	}
	for pattern, answer := range api {
		mux.HandleFunc(pattern, s.authorized(func(w http.ResponseWriter, r *http.Request) { reply(w, r, answer) }))
	}
	mux.HandleFunc("GET /api/overview", s.authorized(func(w http.ResponseWriter, r *http.Request) {
		s.stream(w, r, "overview", s.source.Overview)
	}))
	mux.HandleFunc("GET /api/stack", s.authorized(func(w http.ResponseWriter, r *http.Request) {
		ref := refOf(r)
		s.stream(w, r, fmt.Sprintf("stack %q", ref), func(ctx context.Context, feed *Feed) error { return s.source.Stack(ctx, ref, feed) })
	}))
	return guard(host, mux)
}

// assets are the files of the page beside index.html.
func assets() []string {
	entries, _ := fs.ReadDir(web, "web")
	var out []string
	for _, entry := range entries {
		if entry.Name() != "index.html" {
			out = append(out, entry.Name())
		}
	}
	return out
}

// types are the media types of the page's files.
var types = map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}

func asset(name string) http.HandlerFunc {
	content, err := web.ReadFile("web/" + name)
	return func(w http.ResponseWriter, _ *http.Request) {
		if err != nil {
			http.Error(w, "not found", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", types[path.Ext(name)])
		_, _ = w.Write(content)
	}
}

// guard refuses what is not the page's own: another host (DNS rebinding), another origin, and requests that another site makes a browser
// send. Its headers keep the page from loading or running anything else.
func guard(host string, next http.Handler) http.Handler {
	_, port, _ := net.SplitHostPort(host)
	hosts := []string{host, "localhost:" + port}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
			"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'")
		for name, value := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
			"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
		} {
			header.Set(name, value)
		}
		origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
		switch {
		case !slices.Contains(hosts, r.Host):
			http.Error(w, "the console answers to "+host+" alone", http.StatusMisdirectedRequest)
		case origin != "" && origin != "http://"+r.Host, site != "" && site != "same-origin" && site != "none":
			http.Error(w, "the request comes from another site", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// authorized asks for the token.
func (s *Server) authorized(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		given, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !found || subtle.ConstantTimeCompare([]byte(given), []byte(s.token)) != 1 {
			http.Error(w, "open the address that mlkeeper console printed", http.StatusUnauthorized)
			return
		}
		next(w, r)
	}
}

// session exchanges the code for the token, once.
func (s *Server) session(w http.ResponseWriter, r *http.Request) {
	var given struct{ Code string }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&given); err != nil {
		http.Error(w, "no code in the request", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	right := s.code != "" && subtle.ConstantTimeCompare([]byte(given.Code), []byte(s.code)) == 1
	if right {
		s.code = ""
	}
	s.mu.Unlock()
	if !right {
		http.Error(w, "the address was opened before: use that tab, or start mlkeeper console again", http.StatusUnauthorized)
		return
	}
	reply(w, r, func(*http.Request) (any, error) { return map[string]string{"token": s.token}, nil })
}

// act carries out an action.
func (s *Server) act(r *http.Request) (any, error) {
	if !s.actions {
		return nil, errors.New("the console was started without --allow-actions")
	}
	var asked struct {
		Ref
		Verb string `json:"verb"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxBody)).Decode(&asked); err != nil {
		return nil, errors.New("the request names no action")
	}
	return map[string]string{}, s.source.Act(r.Context(), asked.Ref, asked.Verb)
}

func refOf(r *http.Request) Ref {
	q := r.URL.Query()
	return Ref{Group: q.Get("group"), Kind: q.Get("kind"), Namespace: q.Get("namespace"), Name: q.Get("name")}
}

// reply answers with JSON, or with the sentence of an error.
func reply(w http.ResponseWriter, r *http.Request, answer func(*http.Request) (any, error)) {
	value, err := answer(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

// message is one line of a stream.
type message struct {
	// Set are rows that are new or changed, Removed the keys of those that are gone.
	Set     map[string]json.RawMessage `json:"set,omitempty"`
	Removed []string                   `json:"removed,omitempty"`
	// Error ends the stream.
	Error string `json:"error,omitempty"`
}

// stream sends what a view has, and then what changes, as lines of JSON.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, key string, run func(context.Context, *Feed) error) {
	if !s.enter() {
		http.Error(w, fmt.Sprintf("more than %d pages are open: close some", maxStreams), http.StatusTooManyRequests)
		return
	}
	defer s.exit()
	feed, leave, err := s.feeds.view(key, run)
	if err != nil {
		http.Error(w, err.Error(), http.StatusTooManyRequests)
		return
	}
	defer leave()
	v := feed.look()
	defer feed.leave(v)
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := json.NewEncoder(w)
	send := func(m message) bool {
		if out.Encode(m) != nil {
			return false
		}
		return http.NewResponseController(w).Flush() == nil
	}
	begun := false
	for {
		select {
		case <-r.Context().Done():
			return
		case <-feed.ended:
			if feed.failed != nil {
				send(message{Error: feed.failed.Error()})
			}
			return
		case <-time.After(heartbeat):
			if !send(message{}) {
				return
			}
		case <-v.wake:
			select {
			case <-r.Context().Done():
				return
			case <-time.After(coalesce):
			}
			set, removed := feed.news(v)
			if begun && len(set)+len(removed) == 0 {
				continue
			}
			// The first message says what there is, if nothing.
			if begun = true; !send(message{Set: set, Removed: removed}) {
				return
			}
		}
	}
}

func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams >= maxStreams {
		return false
	}
	s.streams++
	return true
}

func (s *Server) exit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams--
}
