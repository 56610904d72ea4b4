package source

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// session is the HTTP client of one fetch. A client is never shared: its CA, proxy and connections belong to one custom
// resource's credentials.
type session struct {
	*http.Client
	gate      *gate
	transport *http.Transport
}

// newSession makes a client for an origin. What sees the credentials is set by the caller through gate.authorization.
func (s *Store) newSession(ctx context.Context, origin *url.URL, auth Auth) (*session, error) {
	if origin.Scheme == "http" && auth.credentials() {
		return nil, terminal(ReasonAuthInvalid, "use https", "credentials are not sent without TLS")
	}
	roots, err := pool(auth.CA)
	if err != nil {
		return nil, err
	}
	addresses, err := s.guarded(ctx)
	if err != nil {
		return nil, err
	}
	proxy, err := addresses.proxy(auth.Proxy)
	if err != nil {
		return nil, err
	}
	l := s.options.Limits
	transport := &http.Transport{
		Proxy:                  proxy,
		DialContext:            addresses.dialer(l.Dial).DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    l.Dial,
		ResponseHeaderTimeout:  l.Header,
		MaxResponseHeaderBytes: 64 << 10,
		// Else a server that labels its archive as gzip-encoded would have it unpacked, and its digest changed.
		DisableCompression: true,
		ForceAttemptHTTP2:  true,
	}
	g := &gate{
		next: transport, guard: addresses, origin: origin, body: l.Archive, patience: l.Header,
		rootless: roots.Equal(x509.NewCertPool()),
	}
	client := &http.Client{Transport: g, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		return g.note(checkRedirect(r, via, l.Redirects))
	}}
	return &session{Client: client, gate: g, transport: transport}, nil
}

func (s *session) close() { s.transport.CloseIdleConnections() }

// failure is what went wrong at the gate, which libraries may have turned into a text, or else what the caller saw.
func (s *session) failure(err error) *Error {
	if e := s.gate.failure(); e != nil {
		return e
	}
	return describe(err)
}

// pool holds what the certificates of servers are checked with: the roots of the system, or else those in the binary, and
// the bundle.
func pool(bundle []byte) (*x509.CertPool, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if len(bundle) > 0 && !roots.AppendCertsFromPEM(bundle) {
		return nil, terminal(ReasonAuthInvalid, "put PEM certificates into the Secret", "the CA bundle holds no certificate")
	}
	return roots, nil
}

// proxy never looks at the environment: the operator's own proxy would carry fetches past the check of addresses.
func (g guard) proxy(text string) (func(*http.Request) (*url.URL, error), error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no function means no proxy
	}
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || checkHostPort(u) != nil {
		return nil, terminal(ReasonAuthInvalid, "write http://host:port into the Secret", "the proxy's URL is not valid")
	}
	if err := g.checkHost(u.Hostname()); err != nil {
		return nil, describe(err).at("the proxy")
	}
	return http.ProxyURL(u), nil
}

func checkRedirect(r *http.Request, via []*http.Request, limit int) error {
	last := via[len(via)-1]
	switch {
	case len(via) > max(limit, 0):
		return terminal(ReasonRedirectRefused, "use the URL that it redirects to",
			"the server redirects more than %d times", max(limit, 0))
	case r.URL.Scheme != "https" && r.URL.Scheme != last.URL.Scheme:
		return terminal(ReasonRedirectRefused, "use a server that stays with https",
			"the server redirects from %s to another scheme", last.URL.Scheme)
	}
	// A redirect must not make us log in somewhere.
	r.URL.User = nil
	return nil
}

// gate is what every request of a fetch goes through, those of go-git and oras too.
type gate struct {
	next   http.RoundTripper
	guard  guard
	origin *url.URL
	// authorization is the header for the origin; empty where none is sent, or a library sets it.
	authorization string
	// body bounds the bytes of an answer.
	body int64
	// patience is how long a server may take for leastBytes of an answer.
	patience time.Duration
	// refs are the names that are looked for in the answers to GET, which are a git server's lists of refs; empty for other servers.
	refs []string
	// pack is the answer to POST of a git server, which is held to maxPreamble until the pack begins.
	pack *boundedBody
	// strict turns statuses of failure into errors, for libraries that lose them.
	strict bool
	// rootless says that there is no certificate to check those of servers with.
	rootless bool

	mu   sync.Mutex
	last *Error
}

// RoundTrip checks a request's host, adds or takes its credentials, and bounds the answer.
func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := g.admit(r.URL); err != nil {
		return nil, g.note(err)
	}
	ctx, cancel := context.WithCancel(r.Context())
	r = r.Clone(ctx)
	// A referer would tell another host the query of the URL before.
	r.Header.Del("Referer")
	r.Header.Set("User-Agent", "mlkeeper")
	switch {
	case strayed(r):
		r.Header.Del("Authorization")
		r.Header.Del("Cookie")
	case g.authorization != "" && sameOrigin(r.URL, g.origin):
		r.Header.Set("Authorization", g.authorization)
	}
	res, err := g.next.RoundTrip(r)
	if err != nil {
		cancel()
		if unknown := new(x509.UnknownAuthorityError); g.rootless && errors.As(err, unknown) {
			err = noRoots()
		}
		return nil, g.note(describe(err))
	}
	res.Body = g.bound(r.Method, &pacedBody{ReadCloser: res.Body, patience: g.patience, least: leastBytes, cancel: cancel})
	if g.strict && res.StatusCode >= 400 {
		_ = res.Body.Close()
		return nil, g.note(status(res.StatusCode, res.Header))
	}
	_ = g.note(nil)
	return res, nil
}

// bound bounds the body of an answer.
func (g *gate) bound(method string, body *pacedBody) io.ReadCloser {
	out := &boundedBody{ReadCloser: body, left: g.body, err: g.bodyTooLarge(), gate: g}
	switch {
	case len(g.refs) == 0:
	case method == http.MethodGet:
		out.left, out.err = maxRefs, tooManyRefs()
		return &refsBody{refList{in: out, wanted: g.refs}, out}
	default:
		out.left, out.err = maxPreamble, longPreamble()
		// While a server packs, it may send nothing, or a few bytes now and then (git's uploadpack.keepAlive).
		g.pack, body.least = out, 0
	}
	return out
}

// beginPack has the pack follow, which is bounded as archives are.
func (g *gate) beginPack() {
	if g.pack != nil {
		g.pack.left, g.pack.err = g.body, g.bodyTooLarge()
	}
}

func (g *gate) bodyTooLarge() *Error { return tooLarge("the server sent more than %d bytes", g.body) }

// admit refuses what no redirect and no library may ask for.
func (g *gate) admit(u *url.URL) error {
	if u.Scheme != "https" && (u.Scheme != "http" || g.origin.Scheme != "http") {
		return terminal(ReasonRedirectRefused, "use a server that stays with https", "the server leads to %s", u.Scheme)
	}
	return g.guard.checkHost(u.Hostname())
}

// note remembers what failed last, or that nothing did, and returns it.
func (g *gate) note(err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = nil
	if err == nil {
		return nil
	}
	g.last = describe(err)
	return g.last
}

func (g *gate) failure() *Error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}

// strayed says that redirects have led a request away from the origin it started at, even if they led back: whoever
// redirects back chooses what is asked for.
func strayed(r *http.Request) bool {
	for at := r; at.Response != nil && at.Response.Request != nil; at = at.Response.Request {
		if !sameOrigin(at.Response.Request.URL, r.URL) {
			return true
		}
	}
	return false
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// authorization is the header that sends the credentials.
func authorization(auth Auth) string {
	switch {
	case auth.Token != "":
		return "Bearer " + auth.Token
	case auth.Username != "" || auth.Password != "":
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(auth.Username+":"+auth.Password))
	}
	return ""
}

// boundedBody ends an answer that is too long with an error.
type boundedBody struct {
	io.ReadCloser
	left int64
	err  *Error
	gate *gate
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		// Decoders lose what broke their stream.
		err = b.gate.note(describe(err))
	}
	if b.left -= int64(n); b.left < 0 {
		return 0, b.gate.note(b.err)
	}
	return n, err
}
