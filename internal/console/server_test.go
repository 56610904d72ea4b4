package console

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fakeSource has one row in the overview, which a test changes.
type fakeSource struct {
	overviews atomic.Int32
	feed      chan *Feed
	ended     chan struct{}
	acted     atomic.Value
	compared  atomic.Value
}

func (s *fakeSource) About(context.Context) any { return "here" }

func (s *fakeSource) Overview(ctx context.Context, namespace string, feed *Feed) error {
	s.overviews.Add(1)
	row := map[string]string{"name": "a"}
	if namespace != "" {
		row["namespace"] = namespace
	}
	if err := feed.Set("a", row); err != nil {
		return err
	}
	if s.feed != nil {
		s.feed <- feed
	}
	<-ctx.Done()
	if s.ended != nil {
		close(s.ended)
	}
	return nil
}

func (*fakeSource) Stack(context.Context, Ref, *Feed) error { return errors.New("it was deleted") }
func (*fakeSource) Timeline(ctx context.Context, ref Ref, feed *Feed) error {
	if err := feed.Set("timeline of "+ref.Name, 1); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func (s *fakeSource) Diff(_ context.Context, ref Ref, dryRun bool) (any, error) {
	s.compared.Store(fmt.Sprint(ref.Name, " ", dryRun))
	return map[string]string{}, nil
}

func (*fakeSource) Object(_ context.Context, ref Ref) (any, error) {
	if ref.Name == "x" {
		return nil, fmt.Errorf("no right to read %s", ref.Name)
	}
	return ref, nil
}

func (s *fakeSource) Act(_ context.Context, ref Ref, verb string) error {
	s.acted.Store(verb + " " + ref.Name)
	return nil
}

// site is a server that is being asked.
type site struct {
	t      *testing.T
	server *Server
	http   *httptest.Server
}

func serve(t *testing.T, source Source, actions bool) *site {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &site{t: t, server: New(ctx, source, actions)}
	s.http = httptest.NewUnstartedServer(nil)
	s.http.Config.Handler = s.server.handler(s.http.Listener.Addr().String())
	s.http.Start()
	t.Cleanup(func() {
		cancel()
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// ask sends a request, whose headers a test changes.
func (s *site) ask(method, path, body string, change func(*http.Request)) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.http.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.server.token)
	if change != nil {
		change(r)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	if csp := response.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") {
		s.t.Errorf("%s %s: policy %q", method, path, csp)
	}
	content, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

func TestOnlyThePageItselfIsAnswered(t *testing.T) {
	s := serve(t, &fakeSource{}, false)
	if status, page := s.ask("GET", "/", "", nil); status != http.StatusOK || !strings.Contains(page, "<!doctype html>") {
		t.Errorf("the page: %d\n%s", status, page)
	}
	for name, one := range map[string]struct {
		method, path string
		change       func(*http.Request)
		want         int
	}{
		"no token":                 {"GET", "/api/about", func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusUnauthorized},
		"another token":            {"GET", "/api/object", func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }, http.StatusUnauthorized},
		"a stream without token":   {"GET", "/api/overview", func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusUnauthorized},
		"another name (rebinding)": {"GET", "/", func(r *http.Request) { r.Host = "evil.example.com" }, http.StatusMisdirectedRequest},
		"another port":             {"GET", "/", func(r *http.Request) { r.Host = "127.0.0.1:1" }, http.StatusMisdirectedRequest},
		"another origin":           {"GET", "/api/about", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example.com") }, http.StatusForbidden},
		"another site":             {"GET", "/", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden},
		"another method":           {"PUT", "/api/about", nil, http.StatusMethodNotAllowed},
		"a file that is not ours":  {"GET", "/../server.go", nil, http.StatusNotFound},
		"what is allowed":          {"GET", "/api/about", nil, http.StatusOK},
		"the page's own request":   {"GET", "/api/about", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") }, http.StatusOK},
		"a link of another site":   {"GET", "/", navigates, http.StatusForbidden},
		"by the name localhost": {"GET", "/api/about", func(r *http.Request) {
			r.Host = strings.Replace(r.Host, "127.0.0.1", "localhost", 1)
		}, http.StatusOK},
	} {
		if status, body := s.ask(one.method, one.path, "", one.change); status != one.want {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}

// navigates has a request come from a link of another site.
func navigates(r *http.Request) {
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	r.Header.Set("Sec-Fetch-Mode", "navigate")
	r.Header.Set("Sec-Fetch-Dest", "document")
}

// TestThePortOfPlainHTTPIsLeftOut asks as a browser does at port 80.
func TestThePortOfPlainHTTPIsLeftOut(t *testing.T) {
	s := New(t.Context(), &fakeSource{}, false)
	for host, want := range map[string]int{
		"127.0.0.1": http.StatusOK, "localhost": http.StatusOK, "127.0.0.1:80": http.StatusOK, "127.0.0.1:8080": http.StatusMisdirectedRequest,
		"evil.example.com": http.StatusMisdirectedRequest,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		if s.handler("127.0.0.1:80").ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: %d", host, w.Code)
		}
	}
}

func TestTheAddressWorksOnce(t *testing.T) {
	s := serve(t, &fakeSource{}, false)
	code := s.server.code
	if status, _ := s.ask("POST", "/api/session", `{"code":"x"}`, nil); status != http.StatusUnauthorized {
		t.Errorf("another code: %d", status)
	}
	status, body := s.ask("POST", "/api/session", `{"code":"`+code+`"}`, nil)
	if status != http.StatusOK || !strings.Contains(body, s.server.token) {
		t.Errorf("the code: %d %s", status, body)
	}
	for _, again := range []string{code, ""} {
		if status, body := s.ask("POST", "/api/session", `{"code":"`+again+`"}`, nil); status != http.StatusUnauthorized || strings.Contains(body, s.server.token) {
			t.Errorf("the code %q once more: %d %s", again, status, body)
		}
	}
}

func TestActionsHaveToBeAllowed(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		source := &fakeSource{}
		s := serve(t, source, allowed)
		status, body := s.ask("POST", "/api/action", `{"kind":"Tfserv","name":"n","verb":"suspend"}`, nil)
		if acted := source.acted.Load(); (status == http.StatusOK) != allowed || (acted == "suspend n") != allowed {
			t.Errorf("allowed %t: %d %s, %v", allowed, status, body, acted)
		}
	}
}

// TestDryRunsAreAskedFor compares without them unless the request says otherwise, also where no action is allowed: nothing is stored.
func TestDryRunsAreAskedFor(t *testing.T) {
	source := &fakeSource{}
	s := serve(t, source, false)
	for body, want := range map[string]string{`{"name":"n"}`: "n false", `{"name":"n","dryRun":true}`: "n true"} {
		if status, answer := s.ask("POST", "/api/diff", body, nil); status != http.StatusOK || source.compared.Load() != want {
			t.Errorf("%s: %d %s, %v", body, status, answer, source.compared.Load())
		}
	}
	if status, _ := s.ask("GET", "/api/diff?name=n&dryRun=true", "", nil); status != http.StatusMethodNotAllowed {
		t.Errorf("a GET compares: %d", status)
	}
	if status, _ := s.ask("POST", "/api/diff", `{"name":"`+strings.Repeat("n", maxBody)+`"}`, nil); status != http.StatusBadRequest {
		t.Errorf("a body of any length is read: %d", status)
	}
}

func TestErrorsAreSentences(t *testing.T) {
	s := serve(t, &fakeSource{}, false)
	if status, body := s.ask("GET", "/api/object?name=x", "", nil); status != http.StatusUnprocessableEntity || body != "no right to read x\n" {
		t.Errorf("%d %q", status, body)
	}
	if _, body := s.ask("GET", "/api/stack?name=x", "", nil); !strings.Contains(body, `"error":"it was deleted"`) {
		t.Errorf("%q", body)
	}
}

// stream reads the lines of a stream.
func (s *site) stream(ctx context.Context, path string) <-chan message {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.http.URL+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.server.token)
	response, err := http.DefaultClient.Do(r) //nolint:bodyclose // closed below, with the stream
	if err != nil {
		s.t.Fatal(err)
	}
	out := make(chan message)
	go func() {
		defer response.Body.Close()
		defer close(out)
		for scanner := bufio.NewScanner(response.Body); scanner.Scan(); {
			var m message
			if json.Unmarshal(scanner.Bytes(), &m) == nil {
				out <- m
			}
		}
	}()
	return out
}

// TestViewersShareOneView has two that look: both learn of a change, and the source is asked once.
func TestViewersShareOneView(t *testing.T) {
	source := &fakeSource{feed: make(chan *Feed, 1)}
	s := serve(t, source, false)
	first, second := s.stream(t.Context(), "/api/overview"), s.stream(t.Context(), "/api/overview")
	feed := <-source.feed
	for name, stream := range map[string]<-chan message{"first": first, "second": second} {
		seen := map[string]json.RawMessage{}
		for len(seen) == 0 {
			for key, row := range (<-stream).Set {
				seen[key] = row
			}
		}
		if string(seen["a"]) != `{"name":"a"}` {
			t.Errorf("%s: %v", name, seen)
		}
	}
	if err := feed.Set("a", map[string]string{"name": "a"}); err != nil {
		t.Fatal(err)
	}
	feed.Remove("a")
	if err := feed.Set("b", 1); err != nil {
		t.Fatal(err)
	}
	for name, stream := range map[string]<-chan message{"first": first, "second": second} {
		if m := <-stream; string(m.Set["b"]) != "1" || len(m.Set) != 1 || len(m.Removed) != 1 || m.Removed[0] != "a" {
			t.Errorf("%s: %+v", name, m)
		}
	}
	if n := source.overviews.Load(); n != 1 {
		t.Errorf("the source was asked %d times", n)
	}
}

// TestAnOverviewOfOneNamespaceIsAnotherView looks at all namespaces, and then at one, which must be a name that a namespace can have.
func TestAnOverviewOfOneNamespaceIsAnotherView(t *testing.T) {
	source := &fakeSource{}
	s := serve(t, source, false)
	for query, want := range map[string]string{"": `{"name":"a"}`, "?namespace=": `{"name":"a"}`, "?namespace=models": `{"name":"a","namespace":"models"}`} {
		if m := <-s.stream(t.Context(), "/api/overview"+query); string(m.Set["a"]) != want {
			t.Errorf("%q: %s", query, m.Set["a"])
		}
	}
	if n := source.overviews.Load(); n != 2 {
		t.Errorf("the source was asked %d times for two views", n)
	}
	for _, name := range []string{"A_B", "..", "a%2Fb", "-a", strings.Repeat("a", 64)} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/overview?namespace="+name, nil)
		if s.server.overview(w, r, s.server.one); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "lower case letters") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// count is how many views are open.
func (f *feeds) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.open)
}

// TestAViewEndsWhenNobodyLooks goes back to a view within the minute, and not after it.
func TestAViewEndsWhenNobodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		all := &feeds{ctx: ctx, open: map[string]*openFeed{}}
		runs := 0
		look := func() func() {
			_, leave, err := all.view("x", func(ctx context.Context, _ *Feed) error {
				runs++
				<-ctx.Done()
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return leave
		}
		look()()
		time.Sleep(linger / 2)
		look()()
		time.Sleep(linger * 3 / 4)
		synctest.Wait()
		if runs != 1 || all.count() != 1 {
			t.Errorf("a view that was looked at again ran %d times, %d are open", runs, all.count())
		}
		time.Sleep(linger)
		synctest.Wait()
		if all.count() != 0 {
			t.Error("a view that nobody looks at goes on")
		}
		if look()(); runs != 2 {
			t.Errorf("%d runs", runs)
		}
	})
}

// TestOnlyViewsThatSomebodyLooksAtFillUp looks at many after one another, and then at as many at once.
func TestOnlyViewsThatSomebodyLooksAtFillUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		all := &feeds{ctx: ctx, open: map[string]*openFeed{}}
		var ended sync.Map
		look := func(key string) (func(), error) {
			_, leave, err := all.view(key, func(ctx context.Context, _ *Feed) error {
				<-ctx.Done()
				ended.Store(key, true)
				return nil
			})
			synctest.Wait()
			return leave, err
		}
		for i := range 2 * maxViews {
			leave, err := look(fmt.Sprint(i))
			if err != nil {
				t.Fatalf("the %d. of the pages that somebody looked at one after the other: %v", i+1, err)
			}
			leave()
			time.Sleep(time.Millisecond)
		}
		_, first := ended.Load("0")
		if _, last := ended.Load(fmt.Sprint(2*maxViews - 1)); all.count() != maxViews || !first || last {
			t.Errorf("%d views are kept up, and not the latest", all.count())
		}
		for i := range maxViews {
			if _, err := look(fmt.Sprint("at once ", i)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := look("more"); err == nil {
			t.Error("views have no limit")
		}
	})
}

// stalled is a client that takes nothing: a write ends at its deadline.
type stalled struct {
	http.ResponseWriter
	deadline time.Time
}

func (s *stalled) SetWriteDeadline(at time.Time) error {
	s.deadline = at
	return nil
}

func (s *stalled) Write([]byte) (int, error) {
	if s.deadline.IsZero() {
		select {}
	}
	time.Sleep(time.Until(s.deadline))
	return 0, os.ErrDeadlineExceeded
}

func TestAClientThatTakesNothingKeepsNoViewUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{ended: make(chan struct{})}
		s := New(t.Context(), source, false)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/overview", nil)
		r.Host = "127.0.0.1:1"
		r.Header.Set("Authorization", "Bearer "+s.token)
		w := &stalled{ResponseWriter: httptest.NewRecorder()}
		s.handler(r.Host).ServeHTTP(w, r)
		if !w.deadline.IsZero() {
			t.Error("the deadline stays for what the connection is asked next")
		}
		time.Sleep(linger)
		synctest.Wait()
		if !closed(source.ended) {
			t.Error("the view is kept up")
		}
	})
}

// TestASlowViewerQueuesNothing changes one row often while nobody asks.
func TestASlowViewerQueuesNothing(t *testing.T) {
	feed := NewFeed()
	v := feed.look()
	for i := range 1000 {
		if err := feed.Set("a", i); err != nil {
			t.Fatal(err)
		}
	}
	if err := feed.Replace(map[string]any{"b": 1}); err != nil {
		t.Fatal(err)
	}
	if set, removed := feed.news(v); len(set) != 1 || len(removed) != 1 || len(v.dirty) != 0 {
		t.Errorf("%v, %v", set, removed)
	}
	feed.leave(v)
	if err := feed.Set("c", 1); err != nil || len(v.dirty) != 0 {
		t.Errorf("who left is told: %v, %v", v.dirty, err)
	}
}
