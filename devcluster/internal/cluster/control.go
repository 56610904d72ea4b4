package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"mlkeeper.dev/devcluster/internal/component"
)

// maxSocketPath is below the 108 bytes that the kernel allows.
const maxSocketPath = 100

// startTimeout limits a start request; no caller waits longer for an answer.
const startTimeout = 2 * time.Minute

// socketPath is the control socket of the cluster in dir. A path that is too
// long for a socket is replaced by a short one, derived from it.
func socketPath(dir string) string {
	path := filepath.Join(dir, "control.sock")
	if len(path) <= maxSocketPath {
		return path
	}
	sum := sha256.Sum256([]byte(dir))
	name := "devcluster-" + strconv.Itoa(os.Getuid()) + "-" + hex.EncodeToString(sum[:8]) + ".sock"
	return filepath.Join(os.TempDir(), name)
}

// serveControl answers requests until it is closed.
func (s *Supervisor) serveControl() (*http.Server, error) {
	// The lock is ours, so a socket that is still there belongs to nobody.
	_ = os.Remove(s.state.Socket)
	listener, err := net.Listen("unix", s.state.Socket)
	if err != nil {
		return nil, fmt.Errorf("opening the control socket: %w; choose a shorter --dir", err)
	}
	if err := os.Chmod(s.state.Socket, 0o600); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(s.Status(r.Context()))
	})
	mux.HandleFunc("POST /stop/{name}", s.answer(s.handleStop))
	mux.HandleFunc("POST /start/{name}", s.answer(s.handleStart))
	mux.HandleFunc("POST /images", s.handleImage)
	mux.HandleFunc("POST /down", func(_ http.ResponseWriter, r *http.Request) {
		s.once.Do(func() {
			s.fast = r.URL.Query().Get("keep") != "true"
			close(s.quit)
		})
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }()
	return server, nil
}

// answer turns an error into a reply, and admits one change at a time.
func (s *Supervisor) answer(do func(*http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.changes.Lock()
		defer s.changes.Unlock()
		err := errors.New("the cluster is going down")
		if !s.asked() {
			err = do(r)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	}
}

func (s *Supervisor) named(r *http.Request) (string, error) {
	name := r.PathValue("name")
	for _, n := range s.spec.Enabled() {
		if n == name {
			return name, nil
		}
	}
	return "", fmt.Errorf("this cluster has no component %q; choose one of %v", name, s.spec.Enabled())
}

func (s *Supervisor) handleStop(r *http.Request) error {
	name, err := s.named(r)
	if err != nil {
		return err
	}
	grace := stopGrace
	if r.URL.Query().Get("kill") == "true" {
		grace = 0
	}
	if err := s.stop(name, grace); err != nil {
		return err
	}
	s.logf("%s stopped", name)
	return nil
}

func (s *Supervisor) handleStart(r *http.Request) error {
	name, err := s.named(r)
	if err != nil {
		return err
	}
	s.mu.Lock()
	p := s.procs[name]
	s.mu.Unlock()
	if p != nil && p.running() {
		return fmt.Errorf("%s already runs; stop it first with `devcluster stop %s`", name, name)
	}
	ctx, cancel := context.WithTimeout(r.Context(), startTimeout)
	defer cancel()
	go func() {
		select {
		case <-s.quit:
			cancel()
		case <-ctx.Done():
		}
	}()
	if r.URL.Query().Get("wait") == "false" {
		// A component whose own dependency is down can only be launched.
		_, err := s.launch(name)
		return err
	}
	return s.start(ctx, name)
}

// Status returns the state with every running component asked for its health.
func (s *Supervisor) Status(ctx context.Context) State {
	st := s.snapshot()
	var wg sync.WaitGroup
	for i := range st.Components {
		c := &st.Components[i]
		if c.State != StateRunning || !component.Known(c.Name) {
			continue
		}
		wg.Go(func() { c.Healthy = s.healthy(ctx, c.Name) })
	}
	wg.Wait()
	return st
}
