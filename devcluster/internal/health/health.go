// Package health serves the endpoint by which the supervisor knows that one of devcluster's own components runs.
package health

import (
	"net"
	"net/http"
	"time"
)

// Serve answers 200 at /healthz until the listener is closed.
func Serve(listener net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ok"))
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	return server.Serve(listener)
}
