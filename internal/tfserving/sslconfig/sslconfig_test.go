package sslconfig_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"mlkeeper.dev/internal/pki"
	"mlkeeper.dev/internal/tfserving/sslconfig"
)

func pair(t *testing.T, name string) *pki.Pair {
	t.Helper()
	authority, err := pki.NewAuthority(rand.Reader, time.Now(), name)
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

// TestParse refuses what TensorFlow Serving ends with (ParseSSLConfig in model_servers/server.cc), or gRPC makes no credentials of.
func TestParse(t *testing.T) {
	own, other := pair(t, "own"), pair(t, "other")
	config := func(key, cert []byte, more string) string {
		return fmt.Sprintf("server_key: %q\nserver_cert: %q\n%s", key, cert, more)
	}
	clients := fmt.Sprintf("custom_ca: %q client_verify: true", own.CertPEM)
	good := config(own.KeyPEM, own.CertPEM, "")
	for name, c := range map[string]struct {
		text, says string
		newer      bool
		want       sslconfig.Config
	}{
		"plain":             {text: good},
		"with clients":      {text: config(own.KeyPEM, own.CertPEM, clients), want: sslconfig.Config{Verifies: true, Authority: true}},
		"admits nobody":     {text: good + "client_verify: true", want: sslconfig.Config{Verifies: true}},
		"raw PEM":           {text: fmt.Sprintf("server_key: \"%s\"", own.KeyPEM), says: "(line 1:13): it is no text proto"},
		"no proto":          {text: string(own.KeyPEM), says: "it is no text proto"},
		"unknown field":     {text: good + "server_chain: \"\"", says: "it is no text proto"},
		"of another image":  {text: good + "server_chain: \"\"", newer: true},
		"empty":             {text: "", says: "the private key is empty"},
		"no certificate":    {text: fmt.Sprintf("server_key: %q", own.KeyPEM), says: "the certificate is empty"},
		"of two":            {text: config(own.KeyPEM, other.CertPEM, ""), says: "of each other"},
		"exchanged":         {text: config(own.CertPEM, own.KeyPEM, ""), says: "of each other"},
		"no PEM":            {text: config(own.KeyPEM, []byte("MIIB"), ""), says: "of each other"},
		"no authority":      {text: good + `custom_ca: "x"`, says: "custom_ca: it has no certificate"},
		"a path, not a PEM": {text: `server_key: "/tls/tls.key" server_cert: "/tls/tls.crt"`, says: "of each other"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := sslconfig.Parse([]byte(c.text), c.newer)
			if got != c.want || (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%+v, %v", got, err)
			}
			if secret := strings.Split(string(own.KeyPEM), "\n")[1]; err != nil && strings.Contains(err.Error(), secret[:8]) {
				t.Errorf("the error quotes the key: %v", err)
			}
		})
	}
}

// TestErrorsQuoteNoKey has a text that the parser quotes in its error.
func TestErrorsQuoteNoKey(t *testing.T) {
	for _, text := range []string{"server_key: secret", "secret: 1", `server_key: "\secret"`, "server_key: {secret: 1}", "client_verify: secret"} {
		if _, err := sslconfig.Parse([]byte(text), false); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("server_key: \"a\" server_cert: \"b\"", true)
	f.Fuzz(func(_ *testing.T, text string, newer bool) { _, _ = sslconfig.Parse([]byte(text), newer) })
}
