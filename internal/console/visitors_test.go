package console

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// userSource shows who looks.
type userSource struct {
	fakeSource
	name string
	// refused ends the overview, as an API server does that no longer accepts the token.
	refused chan struct{}
}

func (s *userSource) About(context.Context) any { return s.name }

func (s *userSource) Object(context.Context, Ref) (any, error) {
	if closed(s.refused) {
		return nil, fmt.Errorf("%w: expired", ErrUnauthorized)
	}
	return s.name, nil
}

func (s *userSource) Overview(ctx context.Context, _ string, feed *Feed) error {
	if err := feed.Set("a", s.name); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-s.refused:
		return fmt.Errorf("%w: expired", ErrUnauthorized)
	}
}

// users is a server for users whose tokens begin with "good-", are followed by the name and, after a slash, by what tells them apart.
type users struct {
	*site
	mu     sync.Mutex
	logins int
	// tokens are those that were tried.
	tokens  []string
	refused map[string]chan struct{}
}

func serveUsers(t *testing.T) *users {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	u := &users{site: &site{t: t}, refused: map[string]chan struct{}{}}
	u.server = NewForUsers(ctx, func(_ context.Context, token string) (string, Source, error) {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.logins++
		u.tokens = append(u.tokens, token)
		name, good := strings.CutPrefix(token, "good-")
		if !good || u.refused[name] != nil && closed(u.refused[name]) {
			return "", nil, fmt.Errorf("%w: who is that", ErrUnauthorized)
		}
		u.refused[name] = make(chan struct{})
		user, _, _ := strings.Cut(name, "/")
		return user, &userSource{name: name, refused: u.refused[name]}, nil
	}, false)
	u.http = httptest.NewUnstartedServer(nil)
	u.http.Config.Handler = u.server.handler(u.http.Listener.Addr().String())
	u.http.Start()
	t.Cleanup(func() {
		cancel()
		u.http.CloseClientConnections()
		u.http.Close()
	})
	return u
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+token)
		r.Host = "console.example.com"
	}
}

// TestEachUserSeesWithTheirOwnRights has two users, and one whose token is none.
func TestEachUserSeesWithTheirOwnRights(t *testing.T) {
	u := serveUsers(t)
	for range 2 {
		for _, name := range []string{"ann", "bob"} {
			if status, body := u.ask("GET", "/api/about", "", bearer("good-"+name)); status != http.StatusOK || !strings.Contains(body, name) {
				t.Errorf("%s: %d %s", name, status, body)
			}
		}
	}
	if u.logins != 2 {
		t.Errorf("the API server is asked %d times about two tokens", u.logins)
	}
	for _, token := range []string{"bad", "", " ", "  x", u.server.token} {
		status, body := u.ask("GET", "/api/about", "", bearer(token))
		if status != http.StatusUnauthorized || strings.Contains(body, "ann") || strings.Contains(body, "who is that") {
			t.Errorf("the token %q: %d %s", token, status, body)
		}
	}
	if u.logins != 4 || slices.ContainsFunc(u.tokens, func(token string) bool { return strings.TrimSpace(token) != token }) {
		t.Errorf("%q are tried: to the API server, a token after a space is none", u.tokens)
	}
	if status, _ := u.ask("POST", "/api/session", `{"code":""}`, bearer("good-ann")); status == http.StatusOK {
		t.Error("there is a token of the console's own")
	}
	if status, _ := u.ask("GET", "/api/about", "", func(r *http.Request) {
		bearer("good-ann")(r)
		r.Header.Set("Origin", "https://evil.example.com")
	}); status != http.StatusForbidden {
		t.Errorf("another origin: %d", status)
	}
}

// TestATokenThatExpiresShowsNothingMore ends the streams of its user, and asks for another token.
func TestATokenThatExpiresShowsNothingMore(t *testing.T) {
	u := serveUsers(t)
	if status, _ := u.ask("GET", "/api/about", "", bearer("good-ann")); status != http.StatusOK {
		t.Fatal(status)
	}
	u.server.token = "good-ann"
	stream := u.stream(t.Context(), "/api/overview")
	if m := <-stream; string(m.Set["a"]) != `"ann"` {
		t.Fatalf("%+v", m)
	}
	close(u.refused["ann"])
	if m := <-stream; m.Error == "" {
		t.Errorf("%+v", m)
	}
	if status, body := u.ask("GET", "/api/about", "", bearer("good-ann")); status != http.StatusUnauthorized {
		t.Errorf("a token that expired: %d %s", status, body)
	}
}

// TestAnAnswerThatIsRefusedAsksForAToken has a token expire whose user looks at no stream.
func TestAnAnswerThatIsRefusedAsksForAToken(t *testing.T) {
	u := serveUsers(t)
	if status, body := u.ask("GET", "/api/object", "", bearer("good-ann")); status != http.StatusOK {
		t.Fatal(status, body)
	}
	close(u.refused["ann"])
	for range 2 {
		if status, body := u.ask("GET", "/api/object", "", bearer("good-ann")); status != http.StatusUnauthorized {
			t.Errorf("a token that expired: %d %s", status, body)
		}
	}
	if u.logins != 2 {
		t.Errorf("the API server is asked %d times about the token: who is forgotten has to log in", u.logins)
	}
}

// TestALinkLeadsToThePage: another site, such as that of the proxy's login, may lead to the page, and to nothing else.
func TestALinkLeadsToThePage(t *testing.T) {
	u := serveUsers(t)
	for path, want := range map[string]int{"/": http.StatusOK, "/api/about": http.StatusForbidden, "/app.js": http.StatusForbidden} {
		if status, body := u.ask("GET", path, "", func(r *http.Request) {
			bearer("good-ann")(r)
			navigates(r)
		}); status != want {
			t.Errorf("%s: %d %.60s", path, status, body)
		}
	}
	if status, _ := u.ask("GET", "/", "", func(r *http.Request) {
		navigates(r)
		r.Header.Set("Sec-Fetch-Dest", "iframe")
	}); status != http.StatusForbidden {
		t.Errorf("a frame of another site: %d", status)
	}
}

func TestUsersAreLimitedAndForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		all := newVisitors(ctx, func(_ context.Context, token string) (string, Source, error) { return token, &fakeSource{}, nil })
		first, err := all.of(ctx, "0")
		if err != nil || !first.enter() {
			t.Fatal(err)
		}
		for i := 1; i <= maxVisitors; i++ {
			time.Sleep(time.Second)
			if _, err := all.of(ctx, fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		if len(all.known) != maxVisitors || all.known[sha256.Sum256([]byte("0"))] == nil || all.known[sha256.Sum256([]byte("1"))] != nil {
			t.Errorf("%d users are remembered, and not those who look or asked last", len(all.known))
		}
		time.Sleep(forgetAfter + time.Minute)
		if _, err := all.of(ctx, "0"); err != nil || len(all.known) != 1 {
			t.Errorf("%d users are remembered who ask for nothing: %v", len(all.known), err)
		}
		for _, one := range all.known {
			one.enter()
		}
		for i := range maxVisitors {
			v, err := all.of(ctx, fmt.Sprint("more", i))
			if err == nil {
				v.enter()
			} else if i != maxVisitors-1 {
				t.Fatal(err)
			}
		}
		if _, err := all.of(ctx, "one too many"); err == nil {
			t.Error("users who look have no limit")
		}
	})
}

// TestOneUserLocksNobodyOut has users who look with as many tokens as are remembered of all, and then others, who look as well.
func TestOneUserLocksNobodyOut(t *testing.T) {
	u := serveUsers(t)
	for _, name := range []string{"tenant/%d", "system:serviceaccount:team:a%d"} {
		looking := 0
		for i := range maxVisitors {
			token := "good-" + fmt.Sprintf(name, i)
			status, body := u.ask("GET", "/api/about", "", bearer(token))
			if status == http.StatusOK {
				u.server.token = token
				<-u.stream(t.Context(), "/api/overview")
				looking++
			} else if status != http.StatusServiceUnavailable || !strings.Contains(body, fmt.Sprintf("more than %d tokens of ", maxTokens)) {
				t.Fatalf("%s: %d %s", token, status, body)
			}
		}
		if looking != maxTokens {
			t.Errorf("%s looks with %d tokens", name, looking)
		}
	}
	for _, name := range []string{"ann", "system:serviceaccount:other:a1", "system:serviceaccount"} {
		if status, body := u.ask("GET", "/api/about", "", bearer("good-"+name)); status != http.StatusOK {
			t.Errorf("%s is locked out: %d %s", name, status, body)
		}
	}
}

// TestATokenReplacesOneOfItsOwnUser logs a user in with one token more than there may be, none of which looks at anything.
func TestATokenReplacesOneOfItsOwnUser(t *testing.T) {
	u := serveUsers(t)
	for _, name := range []string{"bob", "ann/0", "ann/1", "ann/2", "ann/3", "ann/4", "bob", "ann/4", "ann/1", "ann/0"} {
		if status, body := u.ask("GET", "/api/about", "", bearer("good-"+name)); status != http.StatusOK {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if want := strings.Fields("good-bob good-ann/0 good-ann/1 good-ann/2 good-ann/3 good-ann/4 good-ann/0"); !slices.Equal(u.tokens, want) {
		t.Errorf("the API server is asked about %q, not %q: the token of another user is forgotten, or not the oldest one", u.tokens, want)
	}
}

func TestTokensOfUsersNeedTLS(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	server := NewForUsers(t.Context(), func(context.Context, string) (string, Source, error) { return "", nil, errors.New("unused") }, false)
	if err := server.Serve(t.Context(), listener, nil, func(string) { t.Error("it serves") }); err == nil {
		t.Error("tokens go over plain HTTP")
	}
}
