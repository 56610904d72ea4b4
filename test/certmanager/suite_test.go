//go:build realcertmanager

// Package certmanager tests Secured services whose certificates cert-manager issues, by its own controllers on its own definitions
// (make test-cert-manager).
package certmanager

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

// patience is how long a test waits for what takes seconds on an idle machine.
const patience = 3 * time.Minute

// No stand-in plays cert-manager beside it; the router of the Routes is played here.
func TestMain(m *testing.M) {
	cluster.Main(m, cluster.WithCRDs("route", "servicemonitor", "inferenceservice", "certmanager"), cluster.WithFlags("--no-stand-in"))
}

var (
	certificates = schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"}
	routes       = schema.GroupVersionKind{Group: "route.openshift.io", Version: "v1", Kind: "Route"}
)

// site is a namespace with an operator.
type site struct {
	t        *testing.T
	c        *cluster.Cluster
	ns       string
	operator *harness.Operator
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, c: cluster.Shared(t)}
	controllers(t, s.c)
	s.c.InstallCRDs(t)
	s.ns = s.c.Namespace(t)
	s.operator = harness.Start(t, s.c, harness.Options{Verbose: testing.Verbose()}, fixture.Controller())
	return s
}

// serve applies a Secured service with the lines of spec.tls, or without.
func (s *site) serve(tls string) {
	s.t.Helper()
	s.c.Apply(s.t, fixture.VolumeFor("pv-"+s.ns, s.ns, "tas-pvc"))
	s.t.Cleanup(func() { _, _ = s.c.TryKubectl("delete", "pv", "pv-"+s.ns, "--wait=false", "--ignore-not-found") })
	s.c.Apply(s.t, `
apiVersion: trustyai.opendatahub.io/v1
kind: TrustyAIService
metadata: {name: tas}
spec:
  storage: {format: PVC, folder: /inputs, size: 1Gi}
  data: {filename: data.csv, format: CSV}
  metrics: {schedule: 5s, batchSize: 1000}
`+tls, s.ns)
}

// ready reads the condition Ready of the service for its current generation; nil where there is none.
func (s *site) ready() *metav1.Condition {
	s.t.Helper()
	u := s.c.Get(s.t, fixture.GVK, s.ns, "tas")
	if u == nil {
		return nil
	}
	cr := &v1.TrustyAIService{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, cr); err != nil {
		s.t.Fatal(err)
	}
	if cr.Status.ObservedGeneration != cr.Generation {
		return nil
	}
	return meta.FindStatusCondition(cr.Status.Conditions, "Ready")
}

// awaitReady waits until the service is Ready, whose Route is admitted.
func (s *site) awaitReady() {
	s.t.Helper()
	cluster.Eventually(s.t, patience, func() error {
		if route := s.c.Get(s.t, routes, s.ns, "tas"); route != nil && route.Object["status"] == nil {
			route.Object["status"] = map[string]any{"ingress": []any{map[string]any{
				"host": "tas.apps.devcluster.test", "routerName": "default", "wildcardPolicy": "None",
				"conditions": []any{map[string]any{"type": "Admitted", "status": "True"}},
			}}}
			if err := s.c.Client.Status().Update(s.t.Context(), route); err != nil {
				return err
			}
		}
		if ready := s.ready(); ready == nil || ready.Status != metav1.ConditionTrue {
			return fmt.Errorf("not Ready: %+v", ready)
		}
		return nil
	})
}

// data reads a Secret.
func (s *site) data(name string) map[string][]byte {
	s.t.Helper()
	secret := &corev1.Secret{}
	if err := s.c.Client.Get(s.t.Context(), client.ObjectKey{Namespace: s.ns, Name: name}, secret); err != nil {
		s.t.Fatal(err)
	}
	return secret.Data
}

// trusted is what the Route verifies the proxy with.
func (s *site) trusted() string {
	s.t.Helper()
	route := s.c.Get(s.t, routes, s.ns, "tas")
	if route == nil {
		s.t.Fatal("there is no Route")
	}
	text, _, _ := unstructured.NestedString(route.Object, "spec", "tls", "destinationCACertificate")
	return text
}

// verify says whether a client that trusts an authority takes the certificate of a server for a name.
func verify(authority, chain []byte, name string) error {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return fmt.Errorf("no authority in %q", authority)
	}
	options := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool(), DNSName: name}
	var leaf *x509.Certificate
	for block, rest := pem.Decode(chain); block != nil; block, rest = pem.Decode(rest) {
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return err
		}
		if leaf == nil {
			leaf = one
		} else {
			options.Intermediates.AddCert(one)
		}
	}
	if leaf == nil {
		return fmt.Errorf("no certificate in %q", chain)
	}
	_, err := leaf.Verify(options)
	return err
}

// renew has a Certificate issued once more, as cmctl renew does, and waits for it (cert-manager pkg/apis/certmanager/v1/types_certificate.go,
// CertificateConditionIssuing).
func (s *site) renew(name string) {
	s.t.Helper()
	before := string(s.data(name)["tls.crt"])
	cluster.Eventually(s.t, patience, func() error {
		u := s.c.Get(s.t, certificates, s.ns, name)
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		conditions = append(conditions, map[string]any{
			"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "the test asks for it",
			"lastTransitionTime": time.Now().UTC().Format(time.RFC3339), "observedGeneration": u.GetGeneration(),
		})
		if err := unstructured.SetNestedSlice(u.Object, conditions, "status", "conditions"); err != nil {
			return err
		}
		return s.c.Client.Status().Update(s.t.Context(), u)
	})
	cluster.Eventually(s.t, patience, func() error {
		if string(s.data(name)["tls.crt"]) == before {
			return fmt.Errorf("%s is not issued once more", name)
		}
		return nil
	})
}

// rollouts counts the ReplicaSets of the service.
func (s *site) rollouts() int {
	s.t.Helper()
	return len(strings.Fields(s.c.Kubectl(s.t, "-n", s.ns, "get", "replicasets", "-o", "name")))
}
