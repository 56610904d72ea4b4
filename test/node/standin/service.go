package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxPayload bounds what one request can make the stand-in remember.
const maxPayload = 1 << 20

// payload is one request to the consumer.
type payload struct {
	Path        string `json:"path"`
	ContentType string `json:"contentType"`
	Body        string `json:"body"`
	TLS         bool   `json:"tls"`
}

// service is what the stand-in remembers.
type service struct {
	// storage says why the data cannot be kept; nil for no doubt.
	storage func() error

	mu       sync.Mutex
	unready  bool
	payloads []payload
	// events and messages wait for their other half: a request for its response, or the reverse.
	events   map[partialKey]event
	messages map[partialKey][]message
}

// api serves the given paths of the TrustyAI service, and those below /standin,
// which the real one does not have, for the test.
func (s *service) api(paths []string) http.Handler {
	mux := http.NewServeMux()
	for _, path := range paths {
		mux.HandleFunc(path, map[string]http.HandlerFunc{
			"GET /{$}":                 always(`{"message":"Welcome to TrustyAI Explainability Service"}`),
			"GET /info":                always(`{}`),
			"GET /q/health":            s.ready,
			"GET /q/health/ready":      s.ready,
			"GET /q/health/live":       always(`{"status":"UP"}`),
			"GET /q/metrics":           s.metrics,
			"POST /consumer/kserve/v2": s.consumePartial,
			"POST /{$}":                s.consumeEvent,
		}[path])
	}
	mux.HandleFunc("GET /standin/payloads", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = json.NewEncoder(w).Encode(s.payloads)
	})
	mux.HandleFunc("POST /standin/ready/{value}", func(_ http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unready = r.PathValue("value") != "true"
	})
	return mux
}

func always(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

// ready answers the readiness probe as Quarkus and its successors do.
func (s *service) ready(w http.ResponseWriter, _ *http.Request) {
	status, problem := "UP", s.notReady()
	if problem != nil {
		status = "DOWN"
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"status": status, "standin": fmt.Sprint(problem)})
}

// notReady says why the service is not ready.
func (s *service) notReady() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unready {
		return errors.New("the test asked for it")
	}
	if s.storage == nil {
		return nil
	}
	return s.storage()
}

// storageOf checks the storage as P service/health_checks.py does: the folder of files must be writable, which a file
// shows that is written to it. There is no database; that its credentials are named is all that can be told.
func storageOf(c container) func() error {
	return func() error {
		if c.or("SERVICE_STORAGE_FORMAT", "PVC") != "PVC" {
			return storageSettings(c)
		}
		folder := c.or("STORAGE_DATA_FOLDER", "/tmp")
		return os.WriteFile(filepath.Join(folder, "standin"), []byte("the stand-in was here\n"), 0o600)
	}
}

// storageSettings checks what the environment says of the storage (P service/data/storage/__init__.py, get_storage_interface
// and MariaDBConfig).
func storageSettings(c container) error {
	switch format := c.or("SERVICE_STORAGE_FORMAT", "PVC"); format {
	case "PVC":
		return nil
	case "MARIA", "DATABASE":
		for _, names := range [][]string{
			{"DATABASE_USERNAME", "QUARKUS_DATASOURCE_USERNAME"},
			{"DATABASE_PASSWORD", "QUARKUS_DATASOURCE_PASSWORD"},
			{"DATABASE_HOST", "DATABASE_SERVICE"},
			{"DATABASE_DATABASE", "DATABASE_NAME"},
		} {
			if c.or(names[0], "") == "" && c.or(names[1], "") == "" {
				return fmt.Errorf("requires the environment variable %s", strings.Join(names, " or "))
			}
		}
		if _, err := strconv.Atoi(c.or("DATABASE_PORT", "3306")); err != nil {
			return fmt.Errorf("DATABASE_PORT: %w", err)
		}
		return nil
	default:
		return fmt.Errorf("storage format %s is not supported", format)
	}
}

func (s *service) metrics(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	const labels = `metricName="m",modelId="standin",outcomeName="o",protectedAttribute="a",request="r",requestName="n"`
	_, _ = fmt.Fprintf(w, `# HELP trustyai_spd Its value is invented by the stand-in.
# TYPE trustyai_spd gauge
trustyai_spd{%[2]s} 0.05
# HELP trustyai_dir Its value is invented by the stand-in.
# TYPE trustyai_dir gauge
trustyai_dir{%[2]s} 1.1
# HELP standin_payloads_total Payloads received; not one of TrustyAI's metrics.
# TYPE standin_payloads_total counter
standin_payloads_total %[1]d
`, len(s.payloads), labels)
}

func (s *service) consume(w http.ResponseWriter, r *http.Request, check func([]byte) error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPayload))
	if err == nil {
		err = check(body)
	}
	if err != nil {
		http.Error(w, err.Error(), codeOf(err))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.payloads = append(s.payloads, payload{r.URL.Path, r.Header.Get("Content-Type"), string(body), r.TLS != nil})
}

// serve is the TrustyAI service of a generation until ctx ends.
func serve(ctx context.Context, generation string) error {
	found := container{env: os.LookupEnv, exists: exists}
	s := &service{storage: storageOf(found)}
	listeners, err := s.listeners(generation, found)
	if err != nil {
		return err
	}
	failed := make(chan error, len(listeners))
	var health *http.Server
	for _, l := range listeners {
		server := &http.Server{Addr: l.address(), Handler: l.handler, ReadHeaderTimeout: 5 * time.Second}
		if health == nil {
			health = server
		}
		go func() {
			if l.cert == "" {
				failed <- server.ListenAndServe()
				return
			}
			failed <- server.ListenAndServeTLS(l.cert, l.key)
		}()
	}
	select {
	case <-ctx.Done():
		if generation != python {
			return nil
		}
		// P main.py run_server has two servers in one process, each of which asks for the signal: the one of the health gets it and ends, the
		// other serves on until the process is killed.
		_ = health.Close()
		for err := range failed {
			if !errors.Is(err, http.ErrServerClosed) {
				return err
			}
		}
		return nil
	case err := <-failed:
		return err
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
