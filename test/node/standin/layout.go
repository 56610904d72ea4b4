package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
)

// The generations of the real service. Each rule below names where it was read:
// J is trustyai-explainability v0.28.0, P is trustyai-service 4aa44d6.
const (
	java    = "Java"
	javaTLS = "JavaTLS"
	python  = "Python"
)

// certFile and keyFile are where every generation with TLS looks for its
// certificate (J application.properties, P main.py get_tls_config).
const (
	certFile = "/etc/tls/internal/tls.crt"
	keyFile  = "/etc/tls/internal/tls.key"
)

// listener is one address that the service listens on.
type listener struct {
	host, port string
	// cert and key are files; empty without TLS.
	cert, key string
	handler   http.Handler
}

func (l listener) address() string { return net.JoinHostPort(l.host, l.port) }

// container is what the service finds when it starts.
type container struct {
	// env looks a variable up, exists says whether a file is there.
	env    func(name string) (string, bool)
	exists func(path string) bool
}

// or is a variable, or a default where it is not set.
func (c container) or(name, otherwise string) string {
	if text, found := c.env(name); found {
		return text
	}
	return otherwise
}

// listeners are the addresses of the service, or why it ends at its start.
func (s *service) listeners(generation string, c container) ([]listener, error) {
	switch generation {
	case java, javaTLS:
		return s.javaListeners(generation, c)
	case python:
		return s.pythonListeners(c)
	default:
		return nil, fmt.Errorf("%q is no generation", generation)
	}
}

// javaListeners: Quarkus serves everything on 8080 (quarkus.http.host=0.0.0.0,
// its default port) and, since v0.16.0, on 4443 with the certificate that its
// configuration names; it does not start where that file is missing. An empty
// value counts as none, as in the %test profile of J application.properties.
func (s *service) javaListeners(generation string, c container) ([]listener, error) {
	if err := javaSettings(generation, c); err != nil {
		return nil, err
	}
	all := s.api(javaPaths)
	out := []listener{{host: "0.0.0.0", port: "8080", handler: all}}
	if generation == java {
		return out, nil
	}
	cert := c.or("QUARKUS_HTTP_SSL_CERTIFICATE_FILES", certFile)
	key := c.or("QUARKUS_HTTP_SSL_CERTIFICATE_KEY_FILES", keyFile)
	if cert == "" && key == "" {
		return out, nil
	}
	for _, file := range []string{cert, key} {
		if !c.exists(file) {
			return nil, fmt.Errorf("failed to start application: java.nio.file.NoSuchFileException: %s", file)
		}
	}
	return append(out, listener{host: "0.0.0.0", port: "4443", cert: cert, key: key, handler: all}), nil
}

// javaSettings checks what Quarkus maps at the start (J ServiceConfig.java,
// StorageFormat.java, DataFormat.java): a mandatory value that is missing or
// empty, or one that is no constant, ends it.
func javaSettings(generation string, c container) error {
	formats := []string{"MEMORY", "PVC", "MINIO"}
	if generation == javaTLS {
		formats = append(formats, "DATABASE")
	}
	if text := c.or("SERVICE_STORAGE_FORMAT", ""); !slices.Contains(formats, text) {
		return fmt.Errorf("SRCFG00014: service.storage-format %q is none of %v", text, formats)
	}
	if text := c.or("SERVICE_DATA_FORMAT", ""); text != "" && text != "CSV" && text != "HIBERNATE" {
		return fmt.Errorf("SRCFG00049: service.data-format %q", text)
	}
	if c.or("SERVICE_METRICS_SCHEDULE", "") == "" {
		return errors.New("SRCFG00014: service.metrics-schedule is required")
	}
	return optionalNumber(c, "SERVICE_BATCH_SIZE")
}

func optionalNumber(c container, name string) error {
	if text := c.or(name, ""); text != "" {
		if _, err := strconv.Atoi(text); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// pythonListeners: P main.py run_server. Health, and since aa3f71f the consumer,
// are on HEALTH_PORT. With a certificate the whole API is on SSL_PORT, and on
// HTTP_PORT of the loopback; without, hypercorn has neither its bind nor a use
// for its insecure_bind, and takes its own default.
// The scheduler, its data source and so the storage are made while main.py is
// imported (P prometheus_scheduler.py, data_source.py): wrong settings of the
// storage end it, where J is unready.
func (s *service) pythonListeners(c container) ([]listener, error) {
	ports := map[string]string{"HTTP_PORT": "8081", "SSL_PORT": "4443", "HEALTH_PORT": "8080"}
	for name, otherwise := range ports {
		ports[name] = c.or(name, otherwise)
		if _, err := strconv.Atoi(ports[name]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if health := ports["HEALTH_PORT"]; health == ports["HTTP_PORT"] || health == ports["SSL_PORT"] || ports["HTTP_PORT"] == ports["SSL_PORT"] {
		return nil, fmt.Errorf("the ports must differ: %v", ports)
	}
	if _, err := strconv.Atoi(c.or("SERVICE_BATCH_SIZE", "100")); err != nil {
		return nil, fmt.Errorf("SERVICE_BATCH_SIZE: %w", err)
	}
	if err := storageSettings(c); err != nil {
		return nil, err
	}
	all := withoutHead(s.api(pythonPaths))
	out := []listener{{host: "0.0.0.0", port: ports["HEALTH_PORT"], handler: withoutHead(s.api(pythonHealthPaths))}}
	cert, key := c.or("TLS_CERT_FILE", certFile), c.or("TLS_KEY_FILE", keyFile)
	if c.exists(cert) && c.exists(key) {
		return append(out,
			listener{host: "0.0.0.0", port: ports["SSL_PORT"], cert: cert, key: key, handler: all},
			listener{host: "127.0.0.1", port: ports["HTTP_PORT"], handler: all}), nil
	}
	return append(out, listener{host: "127.0.0.1", port: "8000", handler: all}), nil
}

// withoutHead is a handler that is not asked by HEAD, which FastAPI takes only where it is told to.
func withoutHead(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// javaPaths, pythonPaths and pythonHealthPaths are what is served where, as far
// as an operator, Prometheus, ModelMesh or KServe ask for it: J ConsumerEndpoint
// and CloudEventConsumer (Funqy, at the root), P endpoints/routes.py and main.py.
// Everything else is 404.
var (
	health            = []string{"GET /q/health", "GET /q/health/ready", "GET /q/health/live"}
	javaPaths         = append([]string{"GET /q/metrics", "GET /info", "POST /consumer/kserve/v2", "POST /{$}"}, health...)
	pythonPaths       = append([]string{"GET /{$}", "GET /q/metrics", "GET /info", "POST /consumer/kserve/v2", "POST /{$}"}, health...)
	pythonHealthPaths = append([]string{"POST /consumer/kserve/v2"}, health...)
)
