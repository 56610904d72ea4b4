package console

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
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
	// maxHeaders bounds the headers of a request, in bytes; the token of a user has some kilobytes.
	maxHeaders = 32 << 10
	// maxStreams bounds the streams of a user at once.
	maxStreams = 32
	// headerTimeout bounds how long a client may take to ask, sendTimeout how long it may take to receive a line of a stream, and idleTimeout
	// how long it may say nothing.
	headerTimeout = 10 * time.Second
	sendTimeout   = 2 * time.Minute
	idleTimeout   = 2 * time.Minute
)

// Server serves the page: on a loopback address to one user, or over TLS to many, each of whom brings a bearer token of the cluster.
type Server struct {
	actions bool
	// users are known by their tokens; nil where there is one user alone.
	users *visitors
	// one is that user, whose requests token authorizes. code is exchanged for it once: the address with the code is seen by others, in the
	// list of processes.
	one   *visitor
	token string

	mu   sync.Mutex
	code string
}

// New returns a server for one user, whose views end with the context. With actions, custom resources can be suspended, resumed and
// reconciled.
func New(ctx context.Context, source Source, actions bool) *Server {
	return &Server{one: newVisitor(ctx, source), actions: actions, token: rand.Text() + rand.Text(), code: rand.Text() + rand.Text()}
}

// NewForUsers returns a server for everybody who has a bearer token of the cluster.
func NewForUsers(ctx context.Context, login Login, actions bool) *Server {
	return &Server{users: newVisitors(ctx, login), actions: actions}
}

// Serve serves until the context ends, with TLS where it is configured, and calls ready with the address to open.
func (s *Server) Serve(ctx context.Context, listener net.Listener, secure *tls.Config, ready func(address string)) error {
	if s.users != nil && secure == nil {
		return errors.New("bearer tokens of users need TLS")
	}
	host := listener.Addr().String()
	server := &http.Server{
		Handler: s.handler(host), ReadHeaderTimeout: headerTimeout, MaxHeaderBytes: maxHeaders, IdleTimeout: idleTimeout, TLSConfig: secure,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	var err error
	if secure != nil {
		ready("https://" + host + "/")
		err = server.ServeTLS(listener, "", "")
	} else {
		ready("http://" + host + "/#" + s.code)
		err = server.Serve(listener)
	}
	if !errors.Is(err, http.ErrServerClosed) {
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
	api := map[string]func(*visitor, *http.Request) (any, error){
		"GET /api/about": func(v *visitor, r *http.Request) (any, error) {
			return map[string]any{"actions": s.actions, "cluster": v.source.About(r.Context())}, nil
		},
		"GET /api/object":  func(v *visitor, r *http.Request) (any, error) { return v.source.Object(r.Context(), refOf(r)) },
		"POST /api/diff":   s.diff,
		"POST /api/action": s.act,
	}
	for pattern, answer := range api {
		mux.HandleFunc(pattern, s.authorized(func(w http.ResponseWriter, r *http.Request, v *visitor) {
			value, err := answer(v, r)
			if s.users != nil && errors.Is(err, ErrUnauthorized) {
				s.users.forget(v)
				askForToken(w)
				return
			}
			reply(w, value, err)
		}))
	}
	mux.HandleFunc("GET /api/overview", s.authorized(s.overview))
	for _, name := range []string{"stack", "timeline"} {
		mux.HandleFunc("GET /api/"+name, s.authorized(func(w http.ResponseWriter, r *http.Request, v *visitor) {
			ref, view := refOf(r), v.source.Stack
			if name == "timeline" {
				view = v.source.Timeline
			}
			s.stream(w, r, v, fmt.Sprintf("%s %q", name, ref), func(ctx context.Context, feed *Feed) error { return view(ctx, ref, feed) })
		}))
	}
	if s.users != nil {
		return guard("https", nil, prompt(mux))
	}
	mux.HandleFunc("POST /api/session", s.session)
	return guard("http", names(host), prompt(mux))
}

// names are those that a browser calls a loopback address with a port by. It leaves out the port of plain HTTP.
func names(host string) []string {
	_, port, _ := net.SplitHostPort(host)
	out := []string{host, "localhost:" + port}
	if port == "80" {
		out = append(out, strings.TrimSuffix(host, ":80"), "localhost")
	}
	return out
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
// send. Its headers keep the page from loading or running anything else. Without hosts, any will do: who directs a name there gets no
// token of a user, which the page of another origin has.
func guard(scheme string, hosts []string, next http.Handler) http.Handler {
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
		case hosts != nil && !slices.Contains(hosts, r.Host):
			http.Error(w, "the console answers to "+hosts[0]+" alone", http.StatusMisdirectedRequest)
		case origin != "" && origin != scheme+"://"+r.Host, site != "" && site != "same-origin" && site != "none" && (hosts != nil || !opens(r)):
			http.Error(w, "the request comes from another site", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// opens says that a browser goes to the page, by a link of another site or from where an authenticating proxy has its users log in. Who does
// that gets the page alone, which has nothing of the cluster.
func opens(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Path == "/" && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// authorized asks for the token, and says whose it is.
func (s *Server) authorized(next func(http.ResponseWriter, *http.Request, *visitor)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		given, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !found {
			given = ""
		}
		// To the API server, a token after a further space is none: it answers as it does to anybody.
		given = strings.TrimSpace(given)
		if s.users == nil {
			if subtle.ConstantTimeCompare([]byte(given), []byte(s.token)) != 1 {
				http.Error(w, "open the address that mlkeeper console printed", http.StatusUnauthorized)
				return
			}
			next(w, r, s.one)
			return
		}
		v, err := s.users.of(r.Context(), given)
		switch {
		case errors.Is(err, ErrUnauthorized):
			askForToken(w)
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		default:
			next(w, r, v)
		}
	}
}

// askForToken refuses a request so that the page asks for a token.
func askForToken(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	http.Error(w, ErrUnauthorized.Error(), http.StatusUnauthorized)
}

// session exchanges the code for the token, once.
func (s *Server) session(w http.ResponseWriter, r *http.Request) {
	var given struct{ Code string }
	if err := decode(r, &given); err != nil {
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
	reply(w, map[string]string{"token": s.token}, nil)
}

// act carries out an action.
func (s *Server) act(v *visitor, r *http.Request) (any, error) {
	if !s.actions {
		return nil, errors.New("the console was started without --allow-actions")
	}
	var asked struct {
		Ref
		Verb string `json:"verb"`
	}
	if err := decode(r, &asked); err != nil {
		return nil, errors.New("the request names no action")
	}
	return map[string]string{}, v.source.Act(r.Context(), asked.Ref, asked.Verb)
}

// diff compares. It is no GET, since with dry runs it asks the API server to write, though nothing is stored.
func (s *Server) diff(v *visitor, r *http.Request) (any, error) {
	var asked struct {
		Ref
		DryRun bool `json:"dryRun"`
	}
	if err := decode(r, &asked); err != nil {
		return nil, errors.New("the request names no custom resource")
	}
	return v.source.Diff(r.Context(), asked.Ref, asked.DryRun)
}

func decode(r *http.Request, into any) error { return json.NewDecoder(r.Body).Decode(into) }

// prompt ends requests whose bodies come too slowly.
func prompt(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Now().Add(headerTimeout))
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			http.Error(w, "the body is too long, or comes too slowly", http.StatusBadRequest)
			return
		}
		// The answer may take longer than that.
		_ = control.SetReadDeadline(time.Time{})
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

func refOf(r *http.Request) Ref {
	q := r.URL.Query()
	return Ref{Group: q.Get("group"), Kind: q.Get("kind"), Namespace: q.Get("namespace"), Name: q.Get("name")}
}

// reply answers with JSON, or with the sentence of an error.
func reply(w http.ResponseWriter, value any, err error) {
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

// overview streams the custom resources of one namespace, or of all where none is named. Who has rights in one namespace alone may not list
// what is in all of them (kubernetes.io/docs/reference/access-authn-authz/rbac).
func (s *Server) overview(w http.ResponseWriter, r *http.Request, v *visitor) {
	namespace := r.URL.Query().Get("namespace")
	if namespace != "" && len(validation.IsDNS1123Label(namespace)) > 0 {
		http.Error(w, "no namespace has the name that was entered: use lower case letters, digits and hyphens, at most 63", http.StatusBadRequest)
		return
	}
	s.stream(w, r, v, "overview "+namespace, func(ctx context.Context, feed *Feed) error { return v.source.Overview(ctx, namespace, feed) })
}

// stream sends what a view has, and then what changes, as lines of JSON.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, who *visitor, key string, run func(context.Context, *Feed) error) {
	if !who.enter() {
		http.Error(w, fmt.Sprintf("more than %d pages are open: close some", maxStreams), http.StatusTooManyRequests)
		return
	}
	defer who.exit()
	feed, leave, err := who.feeds.view(key, run)
	if err != nil {
		http.Error(w, err.Error(), http.StatusTooManyRequests)
		return
	}
	defer leave()
	v := feed.look()
	defer feed.leave(v)
	w.Header().Set("Content-Type", "application/x-ndjson")
	out, control := json.NewEncoder(w), http.NewResponseController(w)
	// The connection may have further requests.
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	send := func(m message) bool {
		// Who takes nothing any more does not keep the view up.
		_ = control.SetWriteDeadline(time.Now().Add(sendTimeout))
		return out.Encode(m) == nil && control.Flush() == nil
	}
	begun := false
	for {
		select {
		case <-r.Context().Done():
			return
		case <-feed.ended:
			if s.users != nil && errors.Is(feed.failed, ErrUnauthorized) {
				s.users.forget(who)
			}
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
