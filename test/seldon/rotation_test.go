package seldon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/internal/pki"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// hookChart has a webhook as the chart of Seldon Core has, at an address at which the API server finds the test.
const hookChart = `{{- $ca := genCA "custom-metrics-ca" 365 -}}
{{- $cert := genSignedCert "seldon-webhook-service" (list "127.0.0.1") nil 365 $ca -}}
apiVersion: v1
kind: Secret
metadata: {name: seldon-webhook-server-cert}
type: kubernetes.io/tls
data: {ca.crt: {{ $ca.Cert | b64enc }}, tls.crt: {{ $cert.Cert | b64enc }}, tls.key: {{ $cert.Key | b64enc }}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: rotation}
webhooks:
  - name: rotation.seldon.test
    clientConfig: {caBundle: {{ $ca.Cert | b64enc }}, url: {{ .Values.url | quote }}}
    failurePolicy: Fail
    sideEffects: None
    timeoutSeconds: 10
    admissionReviewVersions: [v1]
    objectSelector: {matchLabels: {rotation: checked}}
    rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
`

// hook is the server behind the webhook. It reads its certificate from the Secret anew all the time, as pods do.
type hook struct {
	url    string
	served atomic.Pointer[tls.Certificate]
}

func newHook(t *testing.T, c *cluster.Cluster, ns string) *hook {
	t.Helper()
	h := &hook{}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if now := h.served.Load(); now != nil {
			return now, nil
		}
		return nil, errors.New("there is no certificate yet")
	}})
	if err != nil {
		t.Fatal(err)
	}
	h.url = fmt.Sprintf("https://127.0.0.1:%d/", listener.Addr().(*net.TCPAddr).Port)
	server := &http.Server{Handler: http.HandlerFunc(allow), ReadHeaderTimeout: time.Minute}
	server.SetKeepAlivesEnabled(false) // Every request looks at the certificate.
	ctx, cancel := context.WithCancel(context.Background())
	running := sync.WaitGroup{}
	running.Go(func() { _ = server.Serve(listener) })
	running.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(300 * time.Millisecond) {
			secret := &corev1.Secret{}
			if c.Client.Get(ctx, client.ObjectKey{Namespace: ns, Name: "seldon-webhook-server-cert"}, secret) != nil {
				continue
			}
			if pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"]); err == nil {
				h.served.Store(&pair)
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = server.Close()
		running.Wait()
	})
	return h
}

// allow answers an admission review.
func allow(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// requests sends requests that the webhook has to admit until it is stopped, and counts them.
type requests struct {
	admitted atomic.Int64
	mu       sync.Mutex
	refused  []error
}

// one sends one request.
func (r *requests) one(ctx context.Context, c *cluster.Cluster, ns string) error {
	checked := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "checked-", Namespace: ns, Labels: map[string]string{"rotation": "checked"}}}
	return c.Client.Create(ctx, checked, client.DryRunAll)
}

func (r *requests) run(ctx context.Context, c *cluster.Cluster, ns string) {
	for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		err := r.one(ctx, c, ns)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			r.admitted.Add(1)
			continue
		}
		r.mu.Lock()
		r.refused = append(r.refused, err)
		r.mu.Unlock()
	}
}

// TestRotation replaces the authority behind a webhook, under a clock that the test sets, while the API server asks the webhook
// all the time: no request is refused.
func TestRotation(t *testing.T) {
	// The authority that is made first is due for renewal two hours ago, so that all that the API server sees is valid by its clock.
	const ago, due = 2 * time.Hour, 2 * pki.AuthorityLife / 3
	c := cluster.Start(t)
	ns := c.Namespace(t)
	h, now := newHook(t, c, ns), &harness.ShiftedClock{}
	now.Shift(-ago - due)
	start(t, c, repository(t).URL, harness.Options{Engine: engine.Options{Clock: now}})
	chartMap(t, c, ns, map[string]string{"hook": hookChart})
	apply(t, c, ns, fmt.Sprintf(`{core: {chart: {repository: "configmap:charts/hook.tgz"}, values: {url: %q}}}`, h.url))
	cluster.Eventually(t, patience, func() error { return ready(get(t, c, ns, "stack")) })
	first := trusted(t, c)
	if len(first) != 1 {
		t.Fatalf("%d authorities are trusted at first", len(first))
	}

	var sent requests
	ctx, stop := context.WithCancel(context.Background())
	running := sync.WaitGroup{}
	defer running.Wait()
	defer stop()
	for i, phase := range []struct {
		what string
		at   time.Duration
		// trusted is how many authorities are, old says that the first is one of them, signs that it is the one that signs.
		trusted    int
		old, signs bool
	}{
		{"the server's certificate is renewed", -ago - 10*time.Minute, 1, true, true},
		{"the next authority is trusted beside the first", -ago, 2, true, true},
		{"the next one signs", -ago + 11*time.Minute, 2, true, false},
		{"the first is trusted no more", -ago + 73*time.Minute, 1, false, false},
	} {
		now.Shift(phase.at)
		c.Kubectl(t, "-n", ns, "annotate", "seldonoperator", "stack", "--overwrite", keeper.ReconcileAtAnnotation+"="+fmt.Sprint(i))
		cluster.Eventually(t, patience, func() error {
			bundle := trusted(t, c)
			return errors.Join(
				same("authorities", len(bundle), phase.trusted), same("the first among them", holds(bundle, first[0]), phase.old),
				same("signed by the first", h.signedBy(first[0]), phase.signs),
				h.admittedBy(bundle, now), sent.one(ctx, c, ns),
			)
		})
		if i == 0 {
			running.Go(func() { sent.run(ctx, c, ns) })
		}
		before := sent.admitted.Load()
		cluster.Eventually(t, patience, func() error {
			if more := sent.admitted.Load() - before; more < 100 {
				return fmt.Errorf("%d requests only", more)
			}
			return nil
		})
		t.Logf("%s: %d requests admitted so far", phase.what, sent.admitted.Load())
	}
	stop()
	running.Wait()
	if len(sent.refused) > 0 {
		t.Errorf("%d of %d requests were refused, the first with: %v", len(sent.refused), sent.admitted.Load(), sent.refused[0])
	}
}

// same is an error unless two values are.
func same[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s: %v, not %v", what, got, want)
	}
	return nil
}

// trusted are the authorities in the webhook configuration.
func trusted(t *testing.T, c *cluster.Cluster) []*x509.Certificate {
	t.Helper()
	u := c.Get(t, schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"}, "", "rotation")
	if u == nil {
		return nil
	}
	hooks, _ := u.Object["webhooks"].([]any)
	config, _ := hooks[0].(map[string]any)["clientConfig"].(map[string]any) //nolint:forcetypeassert // a webhook is a map
	encoded, _ := config["caBundle"].(string)
	rest, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	if err != nil {
		t.Fatal(err)
	}
	var out []*x509.Certificate
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return out
		}
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, one)
	}
}

func holds(bundle []*x509.Certificate, one *x509.Certificate) bool {
	for _, other := range bundle {
		if other.Equal(one) {
			return true
		}
	}
	return false
}

// signedBy says that the certificate that is served was signed by an authority.
func (h *hook) signedBy(authority *x509.Certificate) bool {
	served := h.served.Load()
	if served == nil {
		return false
	}
	leaf, err := x509.ParseCertificate(served.Certificate[0])
	return err == nil && leaf.CheckSignatureFrom(authority) == nil
}

// admittedBy is an error unless what is served is valid and due for a while.
func (h *hook) admittedBy(bundle []*x509.Certificate, now clock.PassiveClock) error {
	served := h.served.Load()
	if served == nil {
		return errors.New("nothing is served")
	}
	leaf, err := x509.ParseCertificate(served.Certificate[0])
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	for _, one := range bundle {
		roots.AddCert(one)
	}
	_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now.Now()})
	return err
}
