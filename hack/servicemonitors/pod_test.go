package servicemonitors

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// page is what the pod answers: the two metrics that TrustyAI's dashboards ask for and one of TensorFlow Serving, one that
// nobody asks for, and labels by which a target could pass for one of another namespace.
const page = `# TYPE trustyai_spd gauge
trustyai_spd{model="m",namespace="elsewhere"} 0.05
# TYPE trustyai_dir gauge
trustyai_dir{model="m",namespace="elsewhere"} 1.1
# TYPE tensorflow_serving_request_count counter
tensorflow_serving_request_count{model_name="m"} 3
# TYPE jvm_threads gauge
jvm_threads{namespace="elsewhere"} 7
`

// authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	cert, key := issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil)
	return authority{cert: cert, key: key}
}

// leaf makes the certificate of a server with these names.
func (a authority) leaf(t *testing.T, names []string) tls.Certificate {
	t.Helper()
	cert, key := issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: names[0]}, DNSNames: names, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, &a)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

func issue(t *testing.T, template *x509.Certificate, by *authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func (a authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// trust is what a cluster has beside what is rendered: the Secret of the certificate, with its authority, and the authority of
// OpenShift's service-ca, which is in every namespace (service-ca-operator pkg/controller/configmapcainjector; the ConfigMap is
// openshift-controller-manager's).
type trust struct {
	user, service authority
}

func newTrust(t *testing.T) trust {
	return trust{user: newAuthority(t, "the user's"), service: newAuthority(t, "service-ca's")}
}

func (a trust) secrets(r rendering) []corev1.Secret {
	name := r.certificate()
	if name == "" {
		return nil
	}
	data := map[string][]byte{corev1.TLSCertKey: {}, corev1.TLSPrivateKeyKey: {}}
	if _, byServiceCA := r.names(name); !byServiceCA {
		data[corev1.ServiceAccountRootCAKey] = a.user.pem()
	}
	return []corev1.Secret{{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: r.deployment.Namespace}, Data: data}}
}

func (a trust) configMaps(r rendering) []corev1.ConfigMap {
	return []corev1.ConfigMap{{
		ObjectMeta: metav1.ObjectMeta{Name: "openshift-service-ca.crt", Namespace: r.deployment.Namespace},
		Data:       map[string]string{"service-ca.crt": string(a.service.pem())},
	}}
}

// leaf is the certificate that the service of a rendering serves with.
func (a trust) leaf(t *testing.T, r rendering) tls.Certificate {
	t.Helper()
	names, byServiceCA := r.names(r.certificate())
	if byServiceCA {
		return a.service.leaf(t, names)
	}
	return a.user.leaf(t, names)
}

// pod answers at the addresses of the pod of a rendering.
type pod struct {
	ports map[string]string

	mu       sync.Mutex
	requests []*http.Request
}

// newPod listens where the originals do: the TrustyAI service on 8080, with everything up to v0.28.0 and with health alone since,
// and on 4443 with everything and TLS (trustyai-explainability v0.28.0 application.properties; trustyai-service 4aa44d6 main.py
// run_server); TensorFlow Serving on 8501 (--rest_api_port, with the path of --monitoring_config_file).
func newPod(t *testing.T, r rendering, leaf *tls.Certificate) *pod {
	t.Helper()
	p := &pod{ports: map[string]string{}}
	serve := func(port, path string, with *tls.Certificate) {
		mux := http.NewServeMux()
		if path != "" {
			mux.HandleFunc("GET "+path, p.answer)
		}
		server := httptest.NewUnstartedServer(mux)
		if with == nil {
			server.Start()
		} else {
			server.TLS = &tls.Config{Certificates: []tls.Certificate{*with}, MinVersion: tls.VersionTLS12}
			server.StartTLS()
		}
		t.Cleanup(server.Close)
		p.ports[port] = server.Listener.Addr().String()
	}
	if r.tensorflow() {
		serve("8501", "/monitoring/prometheus/metrics", nil)
		return p
	}
	if r.python() {
		serve("8080", "", nil)
	} else {
		serve("8080", "/q/metrics", nil)
	}
	if leaf != nil {
		serve("4443", "/q/metrics", leaf)
	}
	return p
}

func (p *pod) answer(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.requests = append(p.requests, r)
	p.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	_, _ = io.WriteString(w, page)
}

// dial leads from the addresses of the pod to its listeners.
func (p *pod) dial(ctx context.Context, network, address string) (net.Conn, error) {
	port, found := strings.CutPrefix(address, podIP+":")
	listener, listens := p.ports[port]
	if !found || !listens {
		return nil, fmt.Errorf("nothing listens on %s", address)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, listener)
}

// asked is the last request for metrics.
func (p *pod) asked() *http.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.requests) == 0 {
		return nil
	}
	return p.requests[len(p.requests)-1]
}
