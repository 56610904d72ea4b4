//go:build realproxy

package main

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/yaml"

	"mlkeeper.dev/internal/pki"
	"mlkeeper.dev/test/ports"
)

// rendered is where MLKeeper's own tests keep what it renders for a Secured service.
const rendered = "../../../internal/trustyai/testdata/golden/upstream-secured-user.yaml"

// TestRealProxy runs kube-rbac-proxy, built from its module, with the flags and the configuration that MLKeeper renders. It says
// whom the original lets in, that it passes on no token, and that the gate lets in nobody else.
func TestRealProxy(t *testing.T) {
	program := os.Getenv("KUBE_RBAC_PROXY")
	if program == "" {
		t.Fatal("KUBE_RBAC_PROXY is not set: run make test-rbac-proxy")
	}
	folder := t.TempDir()
	address := startProxy(t, program, folder)
	// v0.18.0 asks for the right of the method alone.
	original := map[string]string{
		http.MethodGet: "reader writer owner", http.MethodPost: "writer poster owner", http.MethodDelete: "owner", http.MethodHead: "",
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // A test.
	for method, users := range original {
		for user := range rights {
			request, err := http.NewRequestWithContext(t.Context(), method, "https://"+address+"/q/metrics", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer "+user)
			answer, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			want := http.StatusForbidden
			if slices.Contains(strings.Fields(users), user) {
				want = http.StatusOK
			}
			if answer.StatusCode != want {
				t.Errorf("%s of %s is answered %s, not %d", method, user, answer.Status, want)
			}
			if slices.Contains(strings.Fields(admitted[method]), user) && answer.StatusCode != http.StatusOK {
				t.Errorf("%s of %s: the gate is kinder than the original, which answers %s", method, user, answer.Status)
			}
		}
	}
}

// startProxy runs the program before an upstream, on an API server that knows the users of rights.
func startProxy(t *testing.T, program, folder string) (address string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(review))
	t.Cleanup(server.Close)
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		// The image behind the proxy may be that of a tenant.
		if r.Header.Get("Authorization") != "" {
			t.Errorf("the token of the caller is passed on")
		}
	}))
	t.Cleanup(upstream.Close)
	pair, err := pki.NewServer(rand.Reader, time.Now(), nil, "proxy", nil, []net.IP{net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	configuration, args := proxyOf(t)
	for name, content := range map[string][]byte{
		"config.yaml": configuration, "tls.crt": pair.CertPEM, "tls.key": pair.KeyPEM,
		"kubeconfig": fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}],
clusters: [{name: c, cluster: {server: %q}}]}`, server.URL),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	port, err := ports.Free()
	if err != nil {
		t.Fatal(err)
	}
	address = fmt.Sprintf("127.0.0.1:%d", port)
	// What differs is where things are on this machine; of two values of a flag the last is taken.
	args = append(args, "--secure-listen-address="+address, "--upstream="+upstream.URL, "--proxy-endpoints-port=0",
		"--config-file="+filepath.Join(folder, "config.yaml"), "--tls-cert-file="+filepath.Join(folder, "tls.crt"),
		"--tls-private-key-file="+filepath.Join(folder, "tls.key"), "--kubeconfig="+filepath.Join(folder, "kubeconfig"))
	var log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	for deadline := time.Now().Add(time.Minute); ; {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			_ = connection.Close()
			return address
		}
		if time.Now().After(deadline) {
			t.Fatal("the proxy does not listen: ", err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// proxyOf takes the file and the flags of the proxy from what MLKeeper renders.
func proxyOf(t *testing.T) (configuration []byte, args []string) {
	t.Helper()
	text, err := os.ReadFile(rendered)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range strings.Split(string(text), "\n---\n") {
		var o struct {
			Kind string
			Data map[string]string
			Spec struct {
				Template struct {
					Spec struct {
						Containers []struct {
							Name string
							Args []string
						}
					}
				}
			}
		}
		if err := yaml.Unmarshal([]byte(one), &o); err != nil {
			t.Fatal(err)
		}
		if o.Kind == "ConfigMap" && o.Data["config.yaml"] != "" {
			configuration = []byte(o.Data["config.yaml"])
		}
		for _, c := range o.Spec.Template.Spec.Containers {
			if c.Name == "kube-rbac-proxy" {
				args = c.Args
			}
		}
	}
	if configuration == nil || args == nil {
		t.Fatalf("%s has no proxy", rendered)
	}
	return configuration, args
}

// review is the API server, which answers reviews alone.
func review(w http.ResponseWriter, r *http.Request) {
	var object any = &authenticationv1.TokenReview{}
	if strings.HasSuffix(r.URL.Path, "/subjectaccessreviews") {
		object = &authorizationv1.SubjectAccessReview{}
	}
	if err := json.NewDecoder(r.Body).Decode(object); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	allows(object)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(object)
}
