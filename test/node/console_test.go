//go:build realnode && realinstall

package node

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"

	"mlkeeper.dev/test/cluster"
)

const (
	consoleName = "mlkeeper-console"
	// consoleHost is the name in the certificate of the console.
	consoleHost = "console.example.com"
)

// consoleCertificate makes the Secret that the component console asks for, and returns the authority of its certificate.
func consoleCertificate(t *testing.T, c *cluster.Cluster) *x509.CertPool {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey(consoleHost, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, content := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.Kubectl(t, "create", "secret", "tls", consoleName+"-tls", "-n", operatorNamespace,
		"--cert", filepath.Join(folder, "tls.crt"), "--key", filepath.Join(folder, "tls.key"))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	return pool
}

// forwarded runs kubectl port-forward to the console until the test ends, and returns the address on this side.
func forwarded(t *testing.T, c *cluster.Cluster) string {
	t.Helper()
	devcluster, err := cluster.Binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, devcluster, "kubectl", "--kubeconfig", c.Kubeconfig, "port-forward", "-n", operatorNamespace, "service/"+consoleName, ":443")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line)
	if address == "" {
		t.Fatalf("kubectl port-forward printed %q: %v", line, err)
	}
	return address
}

// consoleShowsEachUserTheirOwn has the component console answer two users: one may read TrustyAIServices, the other nothing.
func consoleShowsEachUserTheirOwn(t *testing.T, c *cluster.Cluster) {
	pool := consoleCertificate(t, c)
	c.Kubectl(t, "rollout", "status", "-n", operatorNamespace, "deployment/"+consoleName, "--timeout="+patience.String())
	ns := c.Namespace(t)
	c.Kubectl(t, "create", "serviceaccount", "reader", "-n", ns)
	c.Kubectl(t, "create", "serviceaccount", "nobody", "-n", ns)
	role := ns + "-reader"
	c.Kubectl(t, "create", "clusterrole", role, "--verb=get,list,watch", "--resource=trustyaiservices.trustyai.opendatahub.io")
	c.Kubectl(t, "create", "clusterrolebinding", role, "--clusterrole="+role, "--serviceaccount="+ns+":reader")
	address := forwarded(t, c)
	api := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: consoleHost}}, Timeout: patience}
	get := func(path, account string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+path, nil)
		if err != nil {
			return nil, err
		}
		if account != "" {
			r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(c.Kubectl(t, "create", "token", account, "-n", ns)))
		}
		return api.Do(r)
	}
	for path, want := range map[string]int{"/": http.StatusOK, "/api/overview": http.StatusUnauthorized} {
		answer, err := get(path, "")
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s without a token answers %s", path, answer.Status)
		}
	}
	for account, want := range map[string]string{"reader": `"name":"` + seedName + `"`, "nobody": "TrustyAIService is not shown"} {
		cluster.Eventually(t, patience, func() error {
			answer, err := get("/api/overview", account)
			if err != nil {
				return err
			}
			defer func() { _ = answer.Body.Close() }()
			return reads(answer.Body, want)
		})
	}
	c.Kubectl(t, "delete", "clusterrole,clusterrolebinding", role)
	c.Kubectl(t, "delete", "namespace", ns, "--timeout="+patience.String())
}

// reads reads from a stream until it has a text, for a few seconds.
func reads(stream io.ReadCloser, want string) error {
	end := time.AfterFunc(5*time.Second, func() { _ = stream.Close() })
	defer end.Stop()
	var had strings.Builder
	buffer := make([]byte, 4096)
	for {
		n, err := stream.Read(buffer)
		had.Write(buffer[:n])
		if strings.Contains(had.String(), want) {
			return nil
		}
		if err != nil {
			return errors.Join(fmt.Errorf("the console shows no %s but %s", want, had.String()), err)
		}
	}
}
