package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Serve answers on a listener, the API server's proxy, until ctx ends.
func Serve(ctx context.Context, listener net.Listener, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	known, err := newPods(client)
	if err != nil {
		return err
	}
	in, err := newInjector(dyn, known)
	if err != nil {
		return err
	}
	go in.run(ctx)
	tunnels := newTunnels(listener.Addr())
	go func() {
		server := &http.Server{Handler: &responder{pods: known, hooks: in}, ReadHeaderTimeout: timeout}
		if err := server.Serve(tunnels); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "egress: answers:", err)
		}
	}()
	proxy := &http.Server{Handler: &proxy{pods: known, tunnels: tunnels}, ReadHeaderTimeout: timeout}
	go func() {
		<-ctx.Done()
		_ = tunnels.Close()
		_ = proxy.Close()
	}()
	if err := proxy.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// timeout bounds what a peer may take its time for.
const timeout = 5 * time.Second

// proxy is the HTTP CONNECT proxy of the API server's egress selector (KEP-1281).
type proxy struct {
	pods    *pods
	tunnels *tunnels
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "this is a proxy: CONNECT", http.StatusMethodNotAllowed)
		return
	}
	if host, _, err := net.SplitHostPort(r.Host); err == nil && isLoopback(host) {
		p.forward(w, r)
		return
	}
	answers, err := p.pods.servingAt(r.Context(), r.URL.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	conn, err := hijack(w)
	if err != nil {
		return
	}
	p.tunnels.add(tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{*answers.certificate}, MinVersion: tls.VersionTLS12}))
}

// isLoopback says that a host is a process of this machine, such as the server of a node.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// forward connects to a process of this machine.
func (p *proxy) forward(w http.ResponseWriter, r *http.Request) {
	there, err := net.DialTimeout("tcp", r.URL.Host, timeout)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	here, err := hijack(w)
	if err != nil {
		_ = there.Close()
		return
	}
	go pipe(there, here)
	go pipe(here, there)
}

// hijack takes the connection of a CONNECT and says that it is connected.
func hijack(w http.ResponseWriter) (net.Conn, error) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return nil, err
	}
	// The server's time limits end with the request.
	_ = conn.SetDeadline(time.Time{})
	if _, err := conn.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}
