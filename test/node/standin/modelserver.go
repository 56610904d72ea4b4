package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// serverName is the file name under which the binary stands in for TensorFlow
// Serving: the operator gives the command, and the image has it at that path.
const serverName = "tensorflow_model_server"

// loading is how long the stand-in loads its models. Like TensorFlow Serving it
// opens its ports only when they are available.
const loading = 2 * time.Second

// modelServer has the models of a model config; each is the toy y = 2x + 1.
type modelServer struct{ models []served }

func newModelServer(config string) (*modelServer, error) {
	models, err := modelsOf(config)
	if err == nil && len(models) == 0 {
		// The real server takes no action and waits for another config; no test means that.
		err = fmt.Errorf("the model config names no model: %s", config)
	}
	return &modelServer{models}, err
}

// model is a model of the config.
func (s *modelServer) model(name string) (served, bool) {
	for _, m := range s.models {
		if m.name == name {
			return m, true
		}
	}
	return served{}, false
}

// handler serves TensorFlow Serving's REST paths of the model's state, metadata
// and predictions.
func (s *modelServer) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models/{model}", s.known(func(w http.ResponseWriter, m served) {
		var states []any
		for _, version := range m.versions {
			states = append(states, map[string]any{
				"version": strconv.FormatInt(version, 10), "state": "AVAILABLE", "status": map[string]any{"error_code": "OK", "error_message": ""},
			})
		}
		answer(w, http.StatusOK, map[string]any{"model_version_status": states})
	}))
	mux.HandleFunc("GET /v1/models/{model}/metadata", s.known(func(w http.ResponseWriter, m served) {
		answer(w, http.StatusOK, map[string]any{
			"model_spec": map[string]any{"name": m.name, "signature_name": "", "version": strconv.FormatInt(m.versions[0], 10)}, "metadata": map[string]any{},
		})
	}))
	mux.HandleFunc("POST /v1/models/{model}", s.predict)
	return mux
}

// known answers 404 for another model, as TensorFlow Serving does.
func (s *modelServer) known(next func(http.ResponseWriter, served)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("model")
		m, found := s.model(name)
		if !found {
			answer(w, http.StatusNotFound, map[string]any{"error": fmt.Sprintf("Could not find any versions of model %s", name)})
			return
		}
		next(w, m)
	}
}

func (s *modelServer) predict(w http.ResponseWriter, r *http.Request) {
	model, method, _ := strings.Cut(r.PathValue("model"), ":")
	if _, found := s.model(model); !found || method != "predict" {
		answer(w, http.StatusNotFound, map[string]any{"error": "Servable not found for request: Latest(" + model + ")"})
		return
	}
	var request struct {
		Instances []float64 `json:"instances"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxPayload)).Decode(&request); err != nil {
		answer(w, http.StatusBadRequest, map[string]any{"error": err.Error()})
		return
	}
	predictions := make([]float64, len(request.Instances))
	for i, x := range request.Instances {
		predictions[i] = 2*x + 1
	}
	answer(w, http.StatusOK, map[string]any{"predictions": predictions})
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

// serveModels is TensorFlow Serving until ctx ends. What it is asked then gets no
// answer: the real server does not wait for requests either.
func serveModels(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(serverName, flag.ContinueOnError)
	grpc := flags.Int("port", 8500, "port of gRPC")
	rest := flags.Int("rest_api_port", 0, "port of REST")
	file := flags.String("model_config_file", "", "the model config")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := os.ReadFile(*file)
	if err != nil {
		return err
	}
	server, err := newModelServer(string(config))
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(loading):
	}
	failed := make(chan error, 2)
	go func() { failed <- openOnly(ctx, *grpc) }()
	go func() {
		s := &http.Server{Addr: fmt.Sprintf(":%d", *rest), Handler: server.handler(), ReadHeaderTimeout: 5 * time.Second}
		failed <- s.ListenAndServe()
	}()
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// openOnly is a port that accepts connections and says nothing, which is all that
// a probe by TCP asks of gRPC.
func openOnly(ctx context.Context, port int) error {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		_ = conn.Close()
	}
}

// load posts the same body count times, one every interval, each on a connection
// of its own so that the Service chooses anew, and prints how many failed.
func load(ctx context.Context, url, body string, count int, interval time.Duration) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	failures := 0
	var first error
	for range count {
		code, answer, err := send(ctx, client, http.MethodPost, url, body)
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("%d: %s", code, answer)
		}
		if err != nil {
			failures++
			first = errors.Join(first, err)
			if failures > 3 {
				break
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	if failures > 0 {
		return fmt.Errorf("%d requests failed: %w", failures, first)
	}
	fmt.Printf("%d requests, none failed\n", count)
	return nil
}
