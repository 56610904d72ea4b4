package source

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mlkeeper.dev/internal/limit"
)

func TestFetchUnpacksAnArchive(t *testing.T) {
	data := forge(t)
	var agent, accept atomic.Value
	server := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		agent.Store(r.UserAgent())
		accept.Store(r.Header.Get("Accept-Encoding") + r.URL.RawQuery)
		// A server that labels the archive itself as encoded; unpacked on the way its digest would be another.
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("ETag", `"one"`)
		_, _ = w.Write(data)
	})
	s := open(t, nil)
	for _, uri := range []string{"/x.tar.gz", "/x.tgz", "/tarball/master", "/x?token=s3cret&checksum=sha256:" + sumOf(data), "/x#sha256:" + sumOf(data)} {
		a, err := fetch(t, s, Request{URI: server.URL + uri})
		if err != nil {
			t.Fatalf("%s: %v", uri, err)
		}
		wantContents(t, a, forged)
		if a.ID != sumOf(data) || a.Digest != "sha256:"+a.ID || a.Revision != a.Digest || a.ETag != `"one"` || a.Files != 2 || a.Skipped != 0 {
			t.Errorf("%s: %+v", uri, a)
		}
	}
	if agent.Load() != "mlkeeper" {
		t.Errorf("asked as %v", agent.Load())
	}
	if len(s.entries) != 1 {
		t.Errorf("%d trees of one content", len(s.entries))
	}
	if _, err := fetch(t, s, Request{URI: server.URL + "/x", Digest: "sha256:" + sumOf(data)}); err != nil {
		t.Error(err)
	}
}

func TestAnswersThatAreRefused(t *testing.T) {
	good := forge(t)
	code := func(n int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(n)
			if n != http.StatusNoContent && n != http.StatusNotModified {
				_, _ = w.Write(good)
			}
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		class  Class
		reason string
	}{
		"500 with an archive":    {code(500), Transient, ReasonServerError},
		"503 with an archive":    {code(503), Transient, ReasonServerError},
		"408":                    {code(408), Transient, ReasonServerError},
		"429":                    {code(429), Transient, ReasonServerError},
		"404 with an archive":    {code(404), Terminal, ReasonNotFound},
		"410":                    {code(410), Terminal, ReasonNotFound},
		"401":                    {code(401), Terminal, ReasonUnauthorized},
		"403":                    {code(403), Terminal, ReasonUnauthorized},
		"400":                    {code(400), Terminal, ReasonRejected},
		"203 with an archive":    {code(203), Terminal, ReasonRejected},
		"206 with an archive":    {code(206), Terminal, ReasonRejected},
		"204":                    {code(204), Terminal, ReasonRejected},
		"a 304 nobody asked for": {code(304), Terminal, ReasonRejected},
		"a redirect nowhere":     {code(302), Terminal, ReasonRejected},
		"an empty answer":        {static(nil), Terminal, ReasonArchiveInvalid},
		"an empty archive":       {static(tarball(t)), Terminal, ReasonArchiveInvalid},
		"a page":                 {static([]byte("<html>s3cret</html>")), Terminal, ReasonArchiveInvalid},
		"an answer that is cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100000")
			_, _ = w.Write(good)
		}, Transient, ReasonUnreachable},
		"an announced size beyond the limit": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000001")
		}, Terminal, ReasonTooLarge},
		"an endless answer": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(good)
			for {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, Terminal, ReasonTooLarge},
		"endless headers": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("s3cret", 1<<16))
		}, Transient, ReasonUnreachable},
		"a page that is not HTTP": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, "s3cret\r\n\r\n")
				_ = conn.Close()
			}
		}, Transient, ReasonUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, false, c.answer)
			s := open(t, func(o *Options) { o.Limits.Archive = 1_000_000 })
			_, err := fetch(t, s, Request{URI: server.URL + "/x?token=s3cret"})
			wantError(t, err, c.class, c.reason)
			if !strings.Contains(err.Error(), server.URL+"/x: ") {
				t.Errorf("does not say what it is about: %v", err)
			}
			wantEmpty(t, s)
		})
	}
}

func TestDigestsPin(t *testing.T) {
	data := forge(t)
	var asked atomic.Int32
	server := serve(t, false, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write(data)
	})
	s := open(t, nil)
	other := strings.Repeat("0", 64)
	for _, r := range []Request{{URI: server.URL + "/x#sha256:" + other}, {URI: server.URL + "/x?checksum=sha256:" + other}, {URI: server.URL + "/x", Digest: other}} {
		_, err := fetch(t, s, r)
		wantError(t, err, Terminal, ReasonDigestMismatch)
		if !strings.Contains(err.Error(), sumOf(data)) {
			t.Errorf("does not tell the digest that came: %v", err)
		}
	}
	wantEmpty(t, s)
	for _, r := range []Request{{URI: server.URL + "/x#sha256:" + other, Digest: sumOf(data)}, {URI: server.URL + "/x", Digest: "s3cret"}, {URI: "github.com/o/r", Digest: other}} {
		_, err := fetch(t, s, r)
		wantError(t, err, Terminal, ReasonURIInvalid)
	}
	asked.Store(0)
	for range 3 {
		if _, err := fetch(t, s, Request{URI: server.URL + "/x", Digest: sumOf(data)}); err != nil {
			t.Fatal(err)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("asked %d times for what cannot change", asked.Load())
	}
	// Who knows the digest of a private archive has not got its credentials yet.
	if _, err := fetch(t, s, Request{URI: server.URL + "/elsewhere", Digest: sumOf(data)}); err != nil || asked.Load() != 2 {
		t.Errorf("asked %d times, %v", asked.Load(), err)
	}
}

func TestMovingSourcesAreRevalidated(t *testing.T) {
	first, second := forge(t), tarball(t, file("m/b.yaml", "b"))
	var data atomic.Value
	data.Store(first)
	var sent, unchanged atomic.Int32
	server := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		tag := `"` + sumOf(data.Load().([]byte)) + `"`
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			unchanged.Add(1)
			w.WriteHeader(http.StatusNotModified)
			return
		}
		sent.Add(1)
		_, _ = w.Write(data.Load().([]byte))
	})
	dir := t.TempDir()
	s := open(t, func(o *Options) { o.Dir = dir })
	step := func(s *Store, auth Auth, want []byte, wantSent, wantUnchanged int32) {
		t.Helper()
		a, err := fetch(t, s, Request{URI: server.URL + "/master", Auth: auth})
		if err != nil {
			t.Fatal(err)
		}
		if a.ID != sumOf(want) || a.ETag != `"`+a.ID+`"` || sent.Load() != wantSent || unchanged.Load() != wantUnchanged {
			t.Errorf("%s, sent %d times, unchanged %d times", a.ID, sent.Load(), unchanged.Load())
		}
	}
	step(s, Auth{}, first, 1, 0)
	step(s, Auth{}, first, 1, 1)
	// A source is remembered with the credentials: others get no 304 that stands for what they did not see.
	step(s, Auth{Proxy: ""}, first, 1, 2)
	step(s, Auth{SSHKey: []byte("x")}, first, 2, 2)
	data.Store(second)
	step(s, Auth{}, second, 3, 2)
	data.Store(first)
	step(s, Auth{}, first, 4, 2)
	// After a restart too; and not with another key, which makes another name of every source.
	step(open(t, func(o *Options) { o.Dir = dir }), Auth{}, first, 4, 3)
	step(open(t, func(o *Options) { o.Dir, o.Key = dir, nil }), Auth{}, first, 5, 3)
	// A tree that is gone is sent again, whatever the ETag.
	again := open(t, func(o *Options) { o.Dir, o.Bytes = dir, 1 })
	again.options.Bytes = 1 << 30
	step(again, Auth{}, first, 6, 3)
}

func TestWhatCameBeforeIsGivenWhileTheSourceIsDown(t *testing.T) {
	var down atomic.Int32
	data := forge(t)
	server := serve(t, false, func(w http.ResponseWriter, _ *http.Request) {
		if code := down.Load(); code != 0 {
			w.WriteHeader(int(code))
			return
		}
		_, _ = w.Write(data)
	})
	dir := filepath.Join(t.TempDir(), "store")
	// No key is given, so that the store has to keep its own over the restart.
	again := func(o *Options) { o.Dir, o.Key = dir, nil }
	s := open(t, again)
	request := Request{URI: server.URL + "/x.tar.gz"}
	if a, err := fetch(t, s, request); err != nil || a.Stale != nil {
		t.Fatalf("%+v, %v", a, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	down.Store(http.StatusServiceUnavailable)
	s = open(t, again)
	if _, err := fetch(t, s, request); err == nil {
		t.Error("it is given without being asked for")
	}
	request.Before = true
	a, err := fetch(t, s, request)
	if err != nil {
		t.Fatal(err)
	}
	wantContents(t, a, forged)
	if a.Stale == nil || !strings.Contains(a.Stale.Error(), "503") {
		t.Errorf("stale: %v", a.Stale)
	}
	request.URI += "?another"
	if _, err := fetch(t, s, request); err == nil {
		t.Error("another source gave the same")
	}
	request.URI = server.URL + "/x.tar.gz"
	for _, code := range []int32{http.StatusNotFound, http.StatusUnauthorized, http.StatusForbidden, http.StatusTeapot} {
		down.Store(code)
		a, err := fetch(t, s, request)
		if err != nil {
			t.Fatalf("%d: %v", code, err)
		}
		wantContents(t, a, forged)
		var stale *Error
		if !errors.As(a.Stale, &stale) || stale.Class != Terminal {
			t.Errorf("%d is reported as %v", code, a.Stale)
		}
	}
	request.Digest = strings.Repeat("0", 64)
	if _, err := fetch(t, s, request); err == nil {
		t.Error("what came before is given for another digest")
	}
}

// TestAServerThatIsAskedTooOften holds what GitHub and GitLab answer to those who ask too often: 403 with Retry-After, or with
// no requests left. (docs.github.com, "Rate limits for the REST API": "you will receive a 403 or 429 response, and the
// x-ratelimit-remaining header will be 0"; a secondary limit brings retry-after.)
func TestAServerThatIsAskedTooOften(t *testing.T) {
	for name, header := range map[string]string{"Retry-After": "60", "X-RateLimit-Remaining": "0", "RateLimit-Remaining": "0"} {
		server := serve(t, false, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(name, header)
			w.WriteHeader(http.StatusForbidden)
		})
		_, err := fetch(t, open(t, nil), Request{URI: server.URL})
		wantError(t, err, Transient, ReasonServerError)
	}
	server := serve(t, false, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-RateLimit-Remaining", "12")
		w.WriteHeader(http.StatusForbidden)
	})
	_, err := fetch(t, open(t, nil), Request{URI: server.URL})
	wantError(t, err, Terminal, ReasonUnauthorized)
}

func TestServersWithoutETagsSendButAreNotUnpackedAgain(t *testing.T) {
	server := serve(t, false, static(forge(t)))
	s := open(t, nil)
	a, err := fetch(t, s, Request{URI: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	e := s.entries[a.ID]
	if _, err := fetch(t, s, Request{URI: server.URL}); err != nil || s.entries[a.ID] != e {
		t.Errorf("unpacked again: %v", err)
	}
}

// TestANamespaceWaitsForNoFetchOfAnother, which counts for that one: it may wait for its turn. What both get is kept once.
func TestANamespaceWaitsForNoFetchOfAnother(t *testing.T) {
	data := forge(t)
	var asked atomic.Int32
	begun, gate := make(chan bool, 2), make(chan bool)
	server := serve(t, false, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			begun <- true
			<-gate
		}
		_, _ = w.Write(data)
	})
	s := open(t, nil)
	late := make(chan string, 1)
	go func() {
		a, err := s.Fetch(limit.WithNamespace(context.Background(), "one"), Request{URI: server.URL + "/x"})
		if err != nil {
			late <- err.Error()
			return
		}
		defer a.Close()
		late <- a.ID
	}()
	<-begun
	ctx, cancel := context.WithTimeout(limit.WithNamespace(t.Context(), "other"), 10*time.Second)
	defer cancel()
	a, err := s.Fetch(ctx, Request{URI: server.URL + "/x"})
	close(gate)
	got := <-late
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if got != a.ID || len(s.entries) != 1 || asked.Load() != 2 {
		t.Errorf("one has %s, the other %s, of %d entries, and the server was asked %d times", got, a.ID, len(s.entries), asked.Load())
	}
}

func TestConcurrentFetchesShareOneDownload(t *testing.T) {
	data := forge(t)
	var asked atomic.Int32
	begun, gate := make(chan bool, 100), make(chan bool)
	server := serve(t, false, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		begun <- true
		<-gate
		_, _ = w.Write(data)
	})
	s := open(t, nil)
	// The first one to ask leaves before the answer; the others still get it.
	ctx, leave := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() {
		_, err := s.Fetch(ctx, Request{URI: server.URL + "/x"})
		left <- err
	}()
	<-begun
	leave()
	err := <-left
	wantError(t, err, Transient, ReasonUnreachable)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v is no cancellation", err)
	}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			a, err := s.Fetch(context.Background(), Request{URI: server.URL + "/x"})
			if err != nil {
				t.Error(err)
				return
			}
			defer a.Close()
			if len(contents(t, a)) != 2 {
				t.Error("half a tree")
			}
		})
	}
	// Whoever came later than the answer would be counted as a second request.
	joined(t, 10)
	close(gate)
	wg.Wait()
	if asked.Load() != 1 {
		t.Errorf("asked %d times", asked.Load())
	}
	if e := s.entries[sumOf(data)]; e.pins != 0 {
		t.Errorf("%d pins are left", e.pins)
	}
}

// joined waits until so many callers wait for a fetch, which only their stacks tell.
func joined(t *testing.T, callers int) {
	t.Helper()
	stacks := make([]byte, 4<<20)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		waiting := 0
		for _, one := range strings.Split(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			if head, rest, _ := strings.Cut(one, "\n"); strings.Contains(head, "[select") && strings.Contains(rest, ".(*Store).fetch(") {
				waiting++
			}
		}
		if waiting == callers {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d callers wait", waiting)
		}
	}
}

func TestSlowServersAreGivenUp(t *testing.T) {
	stop := make(chan bool)
	for name, answer := range map[string]http.HandlerFunc{
		"no header": func(http.ResponseWriter, *http.Request) { <-stop },
		"no body": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(200)
			_ = http.NewResponseController(w).Flush()
			<-stop
		},
	} {
		server := serve(t, false, answer)
		for limit, limits := range map[string]Limits{"header": {Header: 50 * time.Millisecond, Total: time.Second}, "total": {Total: 100 * time.Millisecond}} {
			s := open(t, func(o *Options) { o.Limits = limits })
			_, err := fetch(t, s, Request{URI: server.URL + "/x?s3cret"})
			t.Logf("%s, limited by %s: %v", name, limit, err)
			wantError(t, err, Transient, ReasonUnreachable)
			wantEmpty(t, s)
		}
	}
	close(stop)
}

func TestCloseEndsFetches(t *testing.T) {
	begun, stop := make(chan bool), make(chan bool)
	server := serve(t, false, func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	})
	defer close(stop)
	s := open(t, nil)
	go func() {
		<-begun
		_ = s.Close()
	}()
	_, err := s.Fetch(context.Background(), Request{URI: server.URL})
	wantError(t, err, Transient, ReasonUnreachable)
	_, err = s.Fetch(context.Background(), Request{URI: server.URL})
	wantError(t, err, Transient, ReasonStoreFailed)
	_, err = s.Unpack(context.Background(), "x", forge(t))
	wantError(t, err, Transient, ReasonStoreFailed)
}

func TestAddressesAreRefusedWhereTheyAreConnectedTo(t *testing.T) {
	var asked atomic.Int32
	server := serve(t, false, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write(nil)
	})
	port := server.Listener.Addr().(*net.TCPAddr).Port
	at := func(host string) string { return "http://" + net.JoinHostPort(host, itoa(port)) + "/x?s3cret" }
	s := open(t, func(o *Options) { o.Allow = nil })
	for _, uri := range []string{server.URL, at("localhost"), at("::ffff:127.0.0.1"), at("0.0.0.0"), at("169.254.169.254"), at("64:ff9b::7f00:1"), "oci://127.0.0.1/r:1", "git::http://127.0.0.1/r"} {
		_, err := fetch(t, s, Request{URI: uri})
		wantError(t, err, Terminal, ReasonAddressRefused)
	}
	// A name that is not refused as a name: what it resolves to is seen by the dialer alone.
	for _, network := range []string{"tcp4", "tcp6", "tcp"} {
		conn, err := s.guard.dialer(time.Second).DialContext(context.Background(), network, net.JoinHostPort("localhost", itoa(port)))
		if err == nil {
			_ = conn.Close()
		}
		var e *Error
		if network != "tcp6" && !errors.As(err, &e) {
			t.Errorf("%s: %v", network, err)
		}
	}
	if asked.Load() != 0 {
		t.Errorf("%d requests came through", asked.Load())
	}
	// A name that resolves to the cluster's own range, though the range of this machine is allowed.
	denied := open(t, func(o *Options) {
		o.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}
		o.Deny = loopback
	})
	_, err := fetch(t, denied, Request{URI: at("localhost")})
	wantError(t, err, Terminal, ReasonAddressRefused)
}

func itoa(n int) string { return (&net.TCPAddr{Port: n}).String()[1:] }

func TestRedirects(t *testing.T) {
	data := forge(t)
	plain := serve(t, false, static(data))
	var secure *httptest.Server
	secure = serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metadata":
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
		case "/metadata-tls":
			http.Redirect(w, r, "https://169.254.169.254/latest/meta-data", http.StatusFound)
		case "/number":
			http.Redirect(w, r, "https://2852039166/latest/meta-data", http.StatusFound)
		case "/mapped":
			http.Redirect(w, r, "https://[::ffff:169.254.169.254]/", http.StatusFound)
		case "/plain":
			http.Redirect(w, r, plain.URL+"/?s3cret", http.StatusFound)
		case "/file":
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/1", "/2", "/3", "/4", "/5":
			http.Redirect(w, r, "/"+string(r.URL.Path[1]-1), http.StatusFound)
		case "/login":
			http.Redirect(w, r, strings.Replace(secure.URL, "https://", "https://u:p@", 1)+"/0", http.StatusFound)
		case "/0":
			if _, _, ok := r.BasicAuth(); ok {
				w.WriteHeader(http.StatusTeapot)
			}
			_, _ = w.Write(data)
		}
	})
	s := open(t, nil)
	for path, want := range map[string]string{
		"/metadata": ReasonRedirectRefused, "/metadata-tls": ReasonAddressRefused, "/number": ReasonAddressRefused, "/mapped": ReasonAddressRefused,
		"/plain": ReasonRedirectRefused, "/file": ReasonRedirectRefused, "/loop": ReasonRedirectRefused, "/5": "", "/login": "",
	} {
		_, err := fetch(t, s, Request{URI: secure.URL + path + "?s3cret", Auth: Auth{CA: caOf(secure)}})
		if want != "" {
			wantError(t, err, Terminal, want)
		} else if err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	few := open(t, func(o *Options) { o.Limits.Redirects = 2 })
	_, err := fetch(t, few, Request{URI: secure.URL + "/3", Auth: Auth{CA: caOf(secure)}})
	wantError(t, err, Terminal, ReasonRedirectRefused)
	none := open(t, func(o *Options) { o.Limits.Redirects = -1 })
	_, err = fetch(t, none, Request{URI: secure.URL + "/1", Auth: Auth{CA: caOf(secure)}})
	wantError(t, err, Terminal, ReasonRedirectRefused)
	// From http to https and back.
	back := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, secure.URL+"/plain", http.StatusFound)
	})
	_, err = fetch(t, s, Request{URI: back.URL, Auth: Auth{CA: caOf(secure)}})
	wantError(t, err, Terminal, ReasonRedirectRefused)
	// From http to the metadata, with nothing but the check of addresses in the way.
	rogue := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
	})
	_, err = fetch(t, s, Request{URI: rogue.URL})
	wantError(t, err, Terminal, ReasonAddressRefused)
}

func TestCredentialsStayWithTheirOrigin(t *testing.T) {
	data := forge(t)
	var stray atomic.Value
	other := serve(t, true, nil)
	origin := serve(t, true, nil)
	other.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text := r.Header.Get("Authorization") + r.Header.Get("Referer") + r.Header.Get("Cookie"); text != "" {
			stray.Store("another host saw " + text)
		}
		if r.URL.Path == "/back" {
			http.Redirect(w, r, origin.URL+"/taken", http.StatusFound)
			return
		}
		_, _ = w.Write(data)
	})
	origin.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		has := r.Header.Get("Authorization") != ""
		switch r.URL.Path {
		case "/taken":
			if has {
				stray.Store("the other host had us log in at the origin")
			}
			_, _ = w.Write(data)
		case "/across", "/back":
			http.Redirect(w, r, other.URL+r.URL.Path, http.StatusFound)
		case "/within":
			http.Redirect(w, r, "/own", http.StatusTemporaryRedirect)
		default:
			user, password, _ := r.BasicAuth()
			if (user != "me" || password != "s3cret") && r.Header.Get("Authorization") != "Bearer s3cret" {
				w.WriteHeader(http.StatusUnauthorized)
			}
			_, _ = w.Write(data)
		}
	})
	s := open(t, nil)
	both := append(caOf(origin), caOf(other)...)
	for _, auth := range []Auth{{Username: "me", Password: "s3cret", CA: both}, {Token: "s3cret", CA: both}} {
		for _, path := range []string{"/own", "/within", "/across", "/back"} {
			if _, err := fetch(t, s, Request{URI: origin.URL + path + "?query=s3cret", Auth: auth}); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		if text := stray.Load(); text != nil {
			t.Errorf("%v", text)
		}
	}
	_, err := fetch(t, s, Request{URI: origin.URL + "/own", Auth: Auth{Token: "wrong s3cret", CA: both}})
	wantError(t, err, Terminal, ReasonUnauthorized)
	_, err = fetch(t, s, Request{URI: origin.URL + "/own", Auth: Auth{CA: both}})
	wantError(t, err, Terminal, ReasonUnauthorized)
	_, err = fetch(t, s, Request{URI: "http://example.com/x", Auth: Auth{Token: "s3cret"}})
	wantError(t, err, Terminal, ReasonAuthInvalid)
}

// TestTheGateHoldsLibrariesBack asks as go-git and oras do: with a header of their own, and for URLs that a server named.
func TestTheGateHoldsLibrariesBack(t *testing.T) {
	var stray atomic.Value
	other := serve(t, true, func(_ http.ResponseWriter, r *http.Request) { stray.Store(r.Header.Get("Authorization")) })
	plain := serve(t, false, func(http.ResponseWriter, *http.Request) { stray.Store("asked without TLS") })
	origin := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		// Another port of the same host, to which Go's client would send the header on.
		http.Redirect(w, r, other.URL, http.StatusFound)
	})
	at, err := url.Parse(origin.URL)
	if err != nil {
		t.Fatal(err)
	}
	client, err := open(t, nil).newSession(t.Context(), at, Auth{CA: append(caOf(origin), caOf(other)...)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.close()
	ask := func(to string) error {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, to, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "s3cret")
		res, err := client.Do(r)
		if err == nil {
			_ = res.Body.Close()
		}
		return err
	}
	if err := ask(origin.URL); err != nil || stray.Load() != "" {
		t.Errorf("the other host saw %v, %v", stray.Load(), err)
	}
	wantError(t, client.failure(ask(plain.URL)), Terminal, ReasonRedirectRefused)
	if stray.Load() != "" {
		t.Errorf("%v", stray.Load())
	}
}

func TestCertificates(t *testing.T) {
	server := serve(t, true, static(forge(t)))
	s := open(t, nil)
	_, err := fetch(t, s, Request{URI: server.URL})
	wantError(t, err, Transient, ReasonUnreachable)
	if !strings.Contains(err.Error(), "add the CA") {
		t.Errorf("does not say what to do: %v", err)
	}
	_, err = fetch(t, s, Request{URI: server.URL, Auth: Auth{CA: []byte("s3cret")}})
	wantError(t, err, Terminal, ReasonAuthInvalid)
	wrong := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	_, err = fetch(t, s, Request{URI: wrong, Auth: Auth{CA: caOf(server)}})
	wantError(t, err, Transient, ReasonUnreachable)
	if _, err := fetch(t, s, Request{URI: server.URL, Auth: Auth{CA: caOf(server)}}); err != nil {
		t.Error(err)
	}
}

func TestNetworkErrorsSayWhatIsWrong(t *testing.T) {
	closed := serve(t, false, nil)
	closed.Close()
	_, err := fetch(t, open(t, nil), Request{URI: closed.URL + "/?s3cret"})
	for want, err := range map[string]error{
		"connection refused": err,
		"cannot be resolved": describe(&net.DNSError{Err: "server misbehaving", Name: "example.com", IsTemporary: true}),
	} {
		wantError(t, err, Transient, ReasonUnreachable)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
}

func TestProxies(t *testing.T) {
	data := forge(t)
	var seen atomic.Value
	proxy := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		user, _ := url.Parse(r.RequestURI)
		seen.Store(user.Host + " " + r.Header.Get("Proxy-Authorization"))
		_, _ = w.Write(data)
	})
	t.Setenv("HTTP_PROXY", "http://192.0.2.1:1")
	t.Setenv("HTTPS_PROXY", "http://192.0.2.1:1")
	s := open(t, nil)
	with := strings.Replace(proxy.URL, "http://", "http://u:s3cret@", 1)
	a, err := fetch(t, s, Request{URI: "http://only-the-proxy-knows.example/x", Auth: Auth{Proxy: with}})
	if err != nil {
		t.Fatal(err)
	}
	wantContents(t, a, forged)
	if text, _ := seen.Load().(string); !strings.HasPrefix(text, "only-the-proxy-knows.example Basic ") {
		t.Errorf("the proxy saw %q", text)
	}
	for uri, c := range map[string]struct {
		proxy, reason string
		class         Class
	}{
		"http://169.254.169.254/x":   {with, ReasonAddressRefused, Terminal},
		"http://[::1]/x":             {with, ReasonAddressRefused, Terminal},
		"http://10.96.0.1/x":         {with, ReasonAddressRefused, Terminal},
		"http://a.example/1?s3cret":  {"http://169.254.169.254:80", ReasonAddressRefused, Terminal},
		"http://a.example/2":         {"http://u:s3cret@10.96.0.1:3128", ReasonAddressRefused, Terminal},
		"http://a.example/3":         {"socks5://u:s3cret@127.0.0.1:1", ReasonAuthInvalid, Terminal},
		"http://a.example/4":         {"s3cret", ReasonAuthInvalid, Terminal},
		"http://a.example/5":         {"http://u:s3cret@127.0.0.1:1", ReasonUnreachable, Transient},
		"http://a.example/6":         {"http://u:s3cret@2130706433:1", ReasonAuthInvalid, Terminal},
		"git::ssh://git@a.example/7": {with, ReasonAuthInvalid, Terminal},
		"http://user.localhost/8":    {with, "", ""},
	} {
		strict := open(t, func(o *Options) { o.Deny = prefixes("10.96.0.0/12") })
		_, err := fetch(t, strict, Request{URI: uri, Auth: Auth{Proxy: c.proxy}})
		if c.reason == "" {
			if err != nil {
				t.Errorf("%s: %v", uri, err)
			}
			continue
		}
		wantError(t, err, c.class, c.reason)
	}
	refused := open(t, func(o *Options) { o.Allow = nil })
	_, err = fetch(t, refused, Request{URI: "http://a.example/x", Auth: Auth{Proxy: strings.Replace(with, "127.0.0.1", "localhost", 1)}})
	wantError(t, err, Terminal, ReasonAddressRefused)
	_, err = fetch(t, s, Request{URI: proxy.URL + "/direct"})
	if err != nil {
		t.Errorf("the environment's proxy was used: %v", err)
	}
}

func TestMappedSources(t *testing.T) {
	data := forge(t)
	server := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/kf/manifests/archive/v1.tar.gz" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write(data)
	})
	s := open(t, func(o *Options) { o.Map = []Mapping{{From: "https://github.com/kubeflow/", To: server.URL + "/kf/"}} })
	a, err := fetch(t, s, Request{URI: "https://github.com/kubeflow/manifests/archive/v1.tar.gz#sha256:" + sumOf(data)})
	if err != nil {
		t.Fatal(err)
	}
	wantContents(t, a, forged)
	_, err = fetch(t, s, Request{URI: "https://github.com/kubeflow/other.tar.gz"})
	wantError(t, err, Terminal, ReasonNotFound)
}
