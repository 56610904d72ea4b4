//go:build realcertmanager

package certmanager

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mlkeeper.dev/test/cluster"
)

// leaves are the Secrets of the certificates, each with a name that its clients ask for.
var leaves = map[string]string{"tas-tls": "tas-tls.%s.svc", "tas-internal": "tas.%s.svc"}

// TestOwnChain has a service for which cert-manager is served, and nothing said of certificates.
func TestOwnChain(t *testing.T) {
	s := newSite(t)
	s.serve("")
	s.awaitReady()
	s.verifyAll(t)
	if n := s.rollouts(); n != 1 {
		t.Errorf("%d ReplicaSets: the pods were restarted for certificates that they waited for", n)
	}
	s.operator.Settle(t, time.Minute)
}

// TestIssuerOfTheUser has one whose issuer the user names, in spec.tls.issuerRef.
func TestIssuerOfTheUser(t *testing.T) {
	s := newSite(t)
	s.c.Apply(t, userIssuer, s.ns)
	s.serve("  tls: {issuerRef: {name: corp}}\n")
	s.awaitReady()
	s.verifyAll(t)
	if s.trusted() != string(s.data("corp")["tls.crt"]) {
		t.Error("the Route does not trust the user's authority")
	}
	s.operator.Settle(t, time.Minute)
}

// userIssuer is a chain of the user's own.
const userIssuer = `
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: root}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: corp}
spec:
  secretName: corp
  isCA: true
  commonName: corp
  privateKey: {algorithm: ECDSA, size: 256}
  issuerRef: {group: cert-manager.io, kind: Issuer, name: root}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: corp}
spec: {ca: {secretName: corp}}
`

// verifyAll asserts that clients of both Services can verify them: the router by what the Route has, the others by ca.crt.
func (s *site) verifyAll(t *testing.T) {
	t.Helper()
	for secret, name := range leaves {
		data := s.data(secret)
		if err := verify(data["ca.crt"], data["tls.crt"], fmt.Sprintf(name, s.ns)); err != nil {
			t.Errorf("%s by its own ca.crt: %v", secret, err)
		}
	}
	if err := verify([]byte(s.trusted()), s.data("tas-tls")["tls.crt"], fmt.Sprintf(leaves["tas-tls"], s.ns)); err != nil {
		t.Errorf("tas-tls by what the Route trusts: %v", err)
	}
}

// TestRenewedAuthority renews the authority and then the certificates under it. Pods go on with the certificate before until they
// are restarted, and clients with the authority before until they read the new one: each verifies each.
func TestRenewedAuthority(t *testing.T) {
	s := newSite(t)
	s.serve("")
	s.awaitReady()
	served, trust := map[string][][]byte{}, map[string][][]byte{}
	look := func() {
		t.Helper()
		s.operator.Settle(t, time.Minute)
		s.verifyAll(t)
		for secret := range leaves {
			data := s.data(secret)
			served[secret], trust[secret] = append(served[secret], data["tls.crt"]), append(trust[secret], data["ca.crt"])
		}
		trust["tas-tls"] = append(trust["tas-tls"], []byte(s.trusted()))
	}
	look()
	authority := string(s.data("tas-ca")["tls.crt"])
	s.renew("tas-ca")
	if string(s.data("tas-ca")["tls.crt"]) == authority {
		t.Fatal("the authority is the same")
	}
	look()
	for secret := range leaves {
		s.renew(secret)
	}
	look()
	for secret, name := range leaves {
		for i, chain := range served[secret] {
			for j, authority := range trust[secret] {
				if err := verify(authority, chain, fmt.Sprintf(name, s.ns)); err != nil {
					t.Errorf("%s: certificate %d by the authorities %d: %v", secret, i, j, err)
				}
			}
		}
	}
	s.awaitReady()
}

// TestIssuerThatIsMissing has a service whose issuer comes later.
func TestIssuerThatIsMissing(t *testing.T) {
	s := newSite(t)
	s.serve("  tls: {issuerRef: {name: corp}}\n")
	cluster.Eventually(t, patience, func() error {
		// The message is cert-manager's own (v1.21 internal/controller/certificates/policies/checks.go, SecretDoesNotExist).
		ready := s.ready()
		if ready == nil || ready.Status == metav1.ConditionTrue || !strings.Contains(ready.Message, "Issuing certificate as Secret does not exist") {
			return fmt.Errorf("%+v", ready)
		}
		return nil
	})
	if n := s.rollouts(); n != 0 {
		t.Errorf("%d ReplicaSets before the certificates", n)
	}
	s.operator.Settle(t, time.Minute)
	t.Logf("%s: %s", s.ready().Reason, s.ready().Message)
	s.c.Apply(t, userIssuer, s.ns)
	s.awaitReady()
	s.verifyAll(t)
	if n := s.rollouts(); n != 1 {
		t.Errorf("%d ReplicaSets", n)
	}
}
