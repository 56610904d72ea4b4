package tfserving

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/pki"
	"mlkeeper.dev/internal/tfserving/sslconfig"
)

// certificate makes a certificate and its private key.
func certificate(t testing.TB, name string) *pki.Pair {
	t.Helper()
	made, err := pki.NewAuthority(rand.Reader, testNow, name)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// sslConfigOf is a SSLConfig with a certificate.
func sslConfigOf(p *pki.Pair) string {
	return fmt.Sprintf("server_key: %q\nserver_cert: %q\n", p.KeyPEM, p.CertPEM)
}

// putTLS puts the Secret tls into a cluster.
func putTLS(t testing.TB, c *controllertest.Cluster, kind string, data map[string]string) {
	t.Helper()
	u := controllertest.Parse(t, "{apiVersion: v1, kind: Secret, metadata: {name: tls, namespace: ns}, type: "+kind+"}")
	encoded := map[string]any{}
	for key, text := range data {
		encoded[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	u.Object["data"] = encoded
	c.Put(u)
}

const withTLS = inline + "  server: {tls: {secretName: tls}}\n"

// TestABrokenSSLConfigReachesNoPod: every server that starts would end with it.
func TestABrokenSSLConfigReachesNoPod(t *testing.T) {
	c, cr, own := controllertest.New(testNow), custom(t, withTLS), certificate(t, "own")
	putTLS(t, c, "Opaque", map[string]string{"ssl.conf": sslConfigOf(own)})
	_, p := gatherAndRender(t, c, cr)
	rolledOut(t, c, cr, p, true)
	for name, text := range map[string]string{
		"raw PEM":          "server_key: \"" + string(own.KeyPEM) + "\"",
		"of another key":   fmt.Sprintf("server_key: %q server_cert: %q", own.KeyPEM, certificate(t, "other").CertPEM),
		"custom_ca broken": sslConfigOf(own) + `custom_ca: "none"`,
	} {
		putTLS(t, c, "Opaque", map[string]string{"ssl.conf": text})
		facts, p := gatherAndRender(t, c, cr)
		got := problems(p)
		if controllertest.Reasons(p) != "Terminal ConfigInvalid" || !strings.Contains(got[0], "spec.server.tls.secretName (tls/ssl.conf)") ||
			!strings.Contains(got[0], "correct the Secret") {
			t.Errorf("%s: problems %q", name, got)
		}
		if controllertest.Find(p, "Deployment", cr.Name) != nil {
			t.Errorf("%s: servers that run are changed", name)
		}
		if len(facts.Serving.Models()) == 0 && facts.Running == nil {
			t.Errorf("%s: nobody knows what runs", name)
		}
	}
}

// TestAnSSLConfigThatAdmitsNobodyIsTold: TensorFlow Serving starts with it.
func TestAnSSLConfigThatAdmitsNobodyIsTold(t *testing.T) {
	c, cr := controllertest.New(testNow), custom(t, withTLS)
	putTLS(t, c, "Opaque", map[string]string{"ssl.conf": sslConfigOf(certificate(t, "own")) + "client_verify: true"})
	if _, p := gatherAndRender(t, c, cr); len(p.Problems) > 0 || len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "client_verify without custom_ca") {
		t.Errorf("problems %q, warnings %q", problems(p), p.Warnings)
	}
}

// TestASecretOfTheTypeTLSIsServedWith: an init container makes the SSLConfig, whose script is run here.
func TestASecretOfTheTypeTLSIsServedWith(t *testing.T) {
	c, cr, own := controllertest.New(testNow), custom(t, withTLS), certificate(t, "own")
	keys := map[string]string{"tls.crt": "Bag \"a\\b\"\n" + string(own.CertPEM), "tls.key": string(own.KeyPEM), "ca.crt": "other"}
	putTLS(t, c, "kubernetes.io/tls", keys)
	_, p := gatherAndRender(t, c, cr)
	if len(p.Problems) > 0 {
		t.Fatalf("problems %q", problems(p))
	}
	pod := deployed(t, p, "tfs").Spec.Template
	init, server := pod.Spec.InitContainers[0], pod.Spec.Containers[0]
	file := strings.TrimPrefix(server.Args[len(server.Args)-1], "--ssl_config_file=")
	if init.Image != server.Image || !mounts(init, tlsVolume, tlsPath) || !mounts(init, madeTLSVolume, filepath.Dir(file)) ||
		!mounts(server, madeTLSVolume, filepath.Dir(file)) || mounts(server, tlsVolume, tlsPath) {
		t.Errorf("%+v\n%+v", init, server)
	}
	if made := volume(t, p, "tfs", madeTLSVolume).EmptyDir; made == nil || made.Medium != corev1.StorageMediumMemory {
		t.Errorf("the key is on a disk: %+v", made)
	}
	if text := printedTLS(t, init.Command, keys); string(text) == "" {
		t.Error("nothing is printed")
	} else if _, err := sslconfig.Parse(text, false); err != nil {
		t.Errorf("%v of %s", err, text)
	}
	keys["ca.crt"] = "another"
	putTLS(t, c, "kubernetes.io/tls", keys)
	if _, same := gatherAndRender(t, c, cr); !reflect.DeepEqual(deployed(t, same, "tfs").Spec.Template, pod) {
		t.Error("a key that no server reads replaces the pods")
	}
	other := certificate(t, "other")
	keys["tls.crt"], keys["tls.key"] = string(other.CertPEM), string(other.KeyPEM)
	putTLS(t, c, "kubernetes.io/tls", keys)
	if _, p = gatherAndRender(t, c, cr); reflect.DeepEqual(deployed(t, p, "tfs").Spec.Template.Annotations, pod.Annotations) {
		t.Error("a renewed certificate does not replace the pods")
	}
	keys["tls.key"] = string(own.KeyPEM)
	putTLS(t, c, "kubernetes.io/tls", keys)
	if _, p = gatherAndRender(t, c, cr); controllertest.Reasons(p) != "Terminal ConfigInvalid" {
		t.Errorf("problems %q", problems(p))
	}
	cr.Spec.Server = &v1alpha1.ServerSpec{TLS: &v1alpha1.ServerTLSSpec{SecretName: "tls", Key: "ssl.conf"}}
	if _, p = gatherAndRender(t, c, cr); controllertest.Reasons(p) != "Waiting SecretKeyNotFound" {
		t.Errorf("a key that is named is not read: %q", problems(p))
	}
	// One that has a SSLConfig besides may verify clients, which the pair alone would not.
	cr.Spec.Server.TLS.Key = ""
	keys[defaultTLSKey] = sslConfigOf(own)
	putTLS(t, c, "kubernetes.io/tls", keys)
	_, p = gatherAndRender(t, c, cr)
	if len(p.Problems) > 0 {
		t.Fatalf("problems %q", problems(p))
	}
	if pod = deployed(t, p, "tfs").Spec.Template; len(pod.Spec.InitContainers) > 0 || !mounts(pod.Spec.Containers[0], tlsVolume, tlsPath) {
		t.Errorf("its SSLConfig is not served: %+v", pod.Spec)
	}
}

// printedTLS is what a command makes of the keys of a Secret.
func printedTLS(t *testing.T, command []string, keys map[string]string) []byte {
	t.Helper()
	from, to := t.TempDir(), t.TempDir()
	for name, text := range keys {
		if err := os.WriteFile(filepath.Join(from, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := strings.ReplaceAll(strings.ReplaceAll(command[2], madeTLSPath, to), tlsPath, from)
	if out, err := exec.CommandContext(t.Context(), command[0], command[1], script).CombinedOutput(); err != nil { //nolint:gosec // Our own script.
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(to, defaultTLSKey))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func mounts(c corev1.Container, volume, path string) bool {
	for _, m := range c.VolumeMounts {
		if m.Name == volume && m.MountPath == path {
			return true
		}
	}
	return false
}
