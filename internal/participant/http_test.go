package participant

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mlkeeper.dev/internal/acm/config"
)

// TestEndpoints asks at the original's paths.
func TestEndpoints(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "one", Help: "One."}))
	var wrong error
	e := Endpoints{
		HTTP:    config.HTTP{ContextPath: config.DefaultContextPath, User: "participantUser", Password: "secret"},
		Healthy: func() error { return wrong }, Metrics: registry,
	}
	ask := func(path, password string) (int, string) {
		t.Helper()
		r := httptest.NewRequest(http.MethodGet, e.ContextPath+path, nil)
		if password != "" {
			r.SetBasicAuth("participantUser", password)
		}
		w := httptest.NewRecorder()
		e.Handler().ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for _, c := range []struct {
		path, password string
		wrong          error
		status         int
		text           string
	}{
		{"/health", "secret", nil, 200, `"UP"`},
		{"/health/readiness", "secret", nil, 200, `"UP"`},
		{"/health", "secret", errors.New("no broker"), 503, "no broker"},
		{"/health/liveness", "secret", errors.New("no broker"), 200, `"UP"`},
		{"/prometheus", "secret", nil, 200, "one 0"},
		{"/metrics", "secret", nil, 200, "one 0"},
		{"/health", "", nil, 401, ""},
		{"/prometheus", "wrong", nil, 401, ""},
		{"/elsewhere", "secret", nil, 404, ""},
	} {
		wrong = c.wrong
		if status, text := ask(c.path, c.password); status != c.status || !strings.Contains(text, c.text) {
			t.Errorf("%s with %q: %d %q", c.path, c.password, status, text)
		}
	}
}

// TestEndpointsHoldNoConnectionForLong: a client that sends a body slowly, or nothing more, is not waited for.
func TestEndpointsHoldNoConnectionForLong(t *testing.T) {
	e := Endpoints{HTTP: config.HTTP{ContextPath: config.DefaultContextPath}, Healthy: func() error { return nil }, Metrics: prometheus.NewRegistry()}
	s := e.server()
	for name, limit := range map[string]time.Duration{
		"the header": s.ReadHeaderTimeout, "the request": s.ReadTimeout, "the answer": s.WriteTimeout, "a connection without a request": s.IdleTimeout,
	} {
		if limit <= 0 || limit > time.Minute {
			t.Errorf("%s may take %s", name, limit)
		}
	}
	if s.MaxHeaderBytes <= 0 || s.MaxHeaderBytes > 64<<10 {
		t.Errorf("a header may have %d bytes", s.MaxHeaderBytes)
	}
}
