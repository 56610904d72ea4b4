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
	"sync"
	"time"
)

// The ports of the real service: health and metrics with the API on the first,
// the API for the proxy on the second, the API with TLS on the third.
const (
	healthAddress = ":8080"
	apiAddress    = ":8081"
	secureAddress = ":4443"
	// tlsFolder is where the certificate of a Secured service is mounted.
	tlsFolder = "/etc/tls/internal"
	// maxPayload bounds what one request can make the stand-in remember.
	maxPayload = 1 << 20
)

// payload is one request to the consumer.
type payload struct {
	Path        string `json:"path"`
	ContentType string `json:"contentType"`
	Body        string `json:"body"`
	TLS         bool   `json:"tls"`
}

// service is what the stand-in remembers.
type service struct {
	// folder must exist before the service is ready; "" for none.
	folder string

	mu       sync.Mutex
	unready  bool
	payloads []payload
}

// handler serves the paths of the TrustyAI service, and those below /standin,
// which the real one does not have, for the test.
func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /q/health/live", func(w http.ResponseWriter, _ *http.Request) { health(w, nil) })
	mux.HandleFunc("GET /q/health/ready", func(w http.ResponseWriter, _ *http.Request) { health(w, s.notReady()) })
	mux.HandleFunc("GET /q/metrics", s.metrics)
	mux.HandleFunc("POST /consumer/kserve/v2", s.consume)
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

// health answers a probe as Quarkus and its successors do.
func health(w http.ResponseWriter, problem error) {
	status := "UP"
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
	if s.folder == "" {
		return nil
	}
	// Writing shows that the volume is there and that the pod has a right to it.
	return os.WriteFile(filepath.Join(s.folder, "standin"), []byte("the stand-in was here\n"), 0o600)
}

func (s *service) metrics(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = fmt.Fprintf(w, `# HELP trustyai_spd Invented by the stand-in.
# TYPE trustyai_spd gauge
trustyai_spd{model="standin"} 0.05
# HELP trustyai_dir Invented by the stand-in.
# TYPE trustyai_dir gauge
trustyai_dir{model="standin"} 1.1
# HELP standin_payloads_total Payloads received; not one of TrustyAI's metrics.
# TYPE standin_payloads_total counter
standin_payloads_total %d
`, len(s.payloads))
}

func (s *service) consume(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPayload))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.payloads = append(s.payloads, payload{r.URL.Path, r.Header.Get("Content-Type"), string(body), r.TLS != nil})
}

// serve is the TrustyAI service until ctx ends.
func serve(ctx context.Context) error {
	s := &service{folder: os.Getenv("STORAGE_DATA_FOLDER")}
	failed := make(chan error, 3)
	start := func(addr, cert, key string) {
		server := &http.Server{Addr: addr, Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second}
		if cert == "" {
			failed <- server.ListenAndServe()
			return
		}
		failed <- server.ListenAndServeTLS(cert, key)
	}
	go start(healthAddress, "", "")
	go start(apiAddress, "", "")
	if cert := filepath.Join(tlsFolder, "tls.crt"); exists(cert) {
		go start(secureAddress, cert, filepath.Join(tlsFolder, "tls.key"))
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
