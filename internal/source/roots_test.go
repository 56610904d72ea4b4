package source

import (
	"crypto/rand"
	"crypto/x509"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"mlkeeper.dev/internal/pki"
)

// TestAnOperatorWithoutRootsSaysSo tells the two reasons apart for which a certificate is not trusted: its CA is the owner's
// own, who has to name it, or the operator trusts nobody at all, which an administrator has to mend.
func TestAnOperatorWithoutRootsSaysSo(t *testing.T) {
	const ownCA = ": the server's certificate is signed by an unknown authority: " +
		"add the CA that signed the server's certificate to the Secret"
	server := serve(t, true, static(nil))
	another, err := pki.NewAuthority(rand.Reader, time.Now(), "another")
	if err != nil {
		t.Fatal(err)
	}
	withoutRoots(t, func() {
		pool, err := x509.SystemCertPool()
		if err != nil || !pool.Equal(x509.NewCertPool()) {
			t.Fatalf("the child has root certificates (%v)", err)
		}
		plain := serve(t, false, func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, server.URL+"/a.tar.gz", http.StatusFound)
		})
		for where, uri := range map[string]string{"https": server.URL, "a redirect to https": plain.URL} {
			_, err := fetch(t, open(t, nil), Request{URI: uri + "/a.tar.gz"})
			if err == nil || !strings.Contains(err.Error(), ": the operator has no root certificates") || !strings.Contains(err.Error(), "SSL_CERT_FILE") {
				t.Errorf("%s without roots: %v", where, err)
			}
		}
		_, err = fetch(t, open(t, nil), Request{URI: server.URL + "/a.tar.gz", Auth: Auth{CA: another.CertPEM}})
		if err == nil || !strings.HasSuffix(err.Error(), ownCA) {
			t.Errorf("without roots, and with another CA in the Secret: %v", err)
		}
	})
}

// withoutRoots runs the rest of a test in a process of its own that finds no root certificates: a process reads them once.
func withoutRoots(t *testing.T, rest func()) {
	t.Helper()
	const child = "MLKEEPER_TEST_WITHOUT_ROOTS"
	if os.Getenv(child) != "" {
		rest()
		return
	}
	test := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	test.Env = append(os.Environ(), child+"=1", "SSL_CERT_FILE=/nonexistent", "SSL_CERT_DIR=/nonexistent")
	if out, err := test.CombinedOutput(); err != nil {
		t.Errorf("in a process without roots: %v\n%s", err, out)
	}
}
