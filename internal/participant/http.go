package participant

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"mlkeeper.dev/internal/acm/config"
)

// Endpoints serves health and metrics at the paths of the original, for what watches it already.
type Endpoints struct {
	config.HTTP
	// Healthy says what is wrong; nil where nothing is.
	Healthy func() error
	Metrics prometheus.Gatherer
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: a standby is asked too.
func (e Endpoints) NeedLeaderElection() bool { return false }

// Start serves until the context is done.
func (e Endpoints) Start(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf(":%d", e.Port))
	if err != nil {
		return fmt.Errorf("serve health at server.port: %w", err)
	}
	server := e.server()
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// server ends connections that take long, or that nobody uses: whoever reaches the port could otherwise hold as many as he likes.
func (e Endpoints) server() *http.Server {
	return &http.Server{
		Handler: e.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
}

// Handler answers the paths.
func (e Endpoints) Handler() http.Handler {
	mux := http.NewServeMux()
	alive := func() error { return nil }
	for path, check := range map[string]func() error{
		"/health": e.Healthy, "/health/readiness": e.Healthy, "/health/liveness": alive,
	} {
		mux.HandleFunc("GET "+e.ContextPath+path, func(w http.ResponseWriter, _ *http.Request) { tellHealth(w, check()) })
	}
	metrics := promhttp.HandlerFor(e.Metrics, promhttp.HandlerOpts{})
	mux.Handle("GET "+e.ContextPath+"/prometheus", metrics)
	mux.Handle("GET "+e.ContextPath+"/metrics", metrics)
	return e.guard(mux)
}

// guard asks for the credentials.
func (e Endpoints) guard(next http.Handler) http.Handler {
	if e.User == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		right := subtle.ConstantTimeCompare([]byte(user), []byte(e.User)) & subtle.ConstantTimeCompare([]byte(password), []byte(e.Password))
		if right != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="Realm"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// tellHealth answers as Spring's actuator does.
func tellHealth(w http.ResponseWriter, wrong error) {
	answer := map[string]any{"status": "UP"}
	status := http.StatusOK
	if wrong != nil {
		answer = map[string]any{"status": "DOWN", "details": map[string]string{"error": wrong.Error()}}
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}
