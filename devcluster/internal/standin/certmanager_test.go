package standin

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// company is a namespace with the stand-in for cert-manager.
type company struct {
	t *testing.T
	m *certManager
	// clock is what the stand-in takes for the time.
	clock time.Time
}

func foundCompany(t *testing.T, manifests ...string) *company {
	t.Helper()
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		certificates: "CertificateList", requests: "CertificateRequestList", issuers: "IssuerList", clusterIssuers: "ClusterIssuerList", secrets: "SecretList",
	})
	// The fake has no server-side apply. Of one manager's alone it comes to a replacement.
	client.PrependReactor("patch", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch, ok := action.(clienttesting.PatchAction)
		if !ok || patch.GetPatchType() != types.ApplyPatchType {
			return false, nil, nil
		}
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal(patch.GetPatch(), &u.Object); err != nil {
			return true, nil, err
		}
		if err := client.Tracker().Update(secrets, u, patch.GetNamespace()); err == nil {
			return true, u, nil
		}
		return true, u, client.Tracker().Create(secrets, u, patch.GetNamespace())
	})
	m, err := newCertManager(client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.queue.ShutDown)
	c := &company{t: t, m: m, clock: time.Now()}
	m.now = func() time.Time { return c.clock }
	for _, text := range manifests {
		c.apply(text)
	}
	return c
}

// resourceOfKind is that of a kind of cert-manager's.
func resourceOfKind(kind string) schema.GroupVersionResource {
	return map[string]schema.GroupVersionResource{
		"Certificate": certificates, "CertificateRequest": requests, "Issuer": issuers, "ClusterIssuer": clusterIssuers, "Secret": secrets,
	}[kind]
}

// apply creates an object, or gives it another spec.
func (c *company) apply(text string) {
	c.t.Helper()
	u := inferenceService(c.t, text)
	u.SetAPIVersion("cert-manager.io/v1")
	resource := resourceOfKind(u.GetKind())
	if resource == secrets {
		u.SetAPIVersion("v1")
	}
	namespace := "ns"
	if resource == clusterIssuers {
		namespace = ""
	}
	u.SetNamespace(namespace)
	u.SetUID(types.UID(u.GetKind() + "/" + u.GetName()))
	client := c.m.client.Resource(resource).Namespace(namespace)
	if had, err := client.Get(context.Background(), u.GetName(), metav1.GetOptions{}); err == nil {
		had.Object["spec"] = u.Object["spec"]
		had.SetAnnotations(u.GetAnnotations())
		if _, err := client.Update(context.Background(), had, metav1.UpdateOptions{}); err != nil {
			c.t.Fatal(err)
		}
		return
	}
	if _, err := client.Create(context.Background(), u, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *company) all(resource schema.GroupVersionResource) []unstructured.Unstructured {
	c.t.Helper()
	list, err := c.m.client.Resource(resource).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return list.Items
}

// step acts once on every object.
func (c *company) step() {
	c.t.Helper()
	for _, resource := range []schema.GroupVersionResource{issuers, clusterIssuers, certificates} {
		for _, u := range c.all(resource) {
			if _, err := c.m.act(context.Background(), certItem{resource, u.GetNamespace(), u.GetName()}); err != nil {
				c.t.Fatalf("%s: %v", u.GetName(), err)
			}
		}
	}
}

// settle acts until nothing can change any more.
func (c *company) settle() {
	c.t.Helper()
	for range 20 {
		c.step()
	}
}

func (c *company) get(kind, name string) *unstructured.Unstructured {
	c.t.Helper()
	for _, u := range c.all(resourceOfKind(kind)) {
		if u.GetName() == name {
			return &u
		}
	}
	return nil
}

// is compares a condition of an object.
func (c *company) is(kind, name, which, status, reason, message string) {
	c.t.Helper()
	u := c.get(kind, name)
	if u == nil {
		c.t.Errorf("there is no %s %s", kind, name)
		return
	}
	got := conditionIn(u, which)
	if got.status != status || got.reason != reason || !strings.Contains(got.message, message) {
		c.t.Errorf("%s %s: %s is %+v, not %s for %s: %s", kind, name, which, got, status, reason, message)
	}
}

// verified is the certificate in a Secret, which the authority beside it verifies for a name.
func (c *company) verified(secret, name string) *x509.Certificate {
	c.t.Helper()
	u := c.get("Secret", secret)
	if u == nil {
		c.t.Fatalf("there is no Secret %s", secret)
	}
	chain, err := certificatesIn(dataOf(u, "tls.crt"))
	if err != nil {
		c.t.Fatal(err)
	}
	key, err := privateKeyIn(dataOf(u, "tls.key"))
	if err != nil || !sameKey(chain[0].PublicKey, key.Public()) {
		c.t.Errorf("%s: the key is another's: %v", secret, err)
	}
	options := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), DNSName: name, CurrentTime: c.clock}
	options.Roots.AppendCertsFromPEM([]byte(dataOf(u, "ca.crt")))
	for _, one := range chain[1:] {
		options.Intermediates.AddCert(one)
	}
	if _, err := chain[0].Verify(options); err != nil {
		c.t.Errorf("%s: %v", secret, err)
	}
	return chain[0]
}

const (
	selfSignedIssuer = `{kind: Issuer, metadata: {name: self}, spec: {selfSigned: {}}}`
	caIssuer         = `{kind: Issuer, metadata: {name: ca}, spec: {ca: {secretName: authority}}}`
	caCertificate    = `
kind: Certificate
metadata: {name: authority}
spec:
  {secretName: authority, isCA: true, commonName: the authority, duration: 87600h, issuerRef: {name: self}, privateKey: {algorithm: ECDSA}}`
	leafCertificate = `
kind: Certificate
metadata: {name: leaf, labels: {of: mine}}
spec:
  secretName: leaf-tls
  dnsNames: [a.test, b.test]
  usages: [digital signature, server auth]
  duration: 8760h
  issuerRef: {name: ca, kind: Issuer, group: cert-manager.io}
  privateKey: {algorithm: ECDSA, size: 256, rotationPolicy: Always}`
)

// TestAChainIsIssued: an authority that signs itself, its issuer, and a certificate under it.
func TestAChainIsIssued(t *testing.T) {
	c := foundCompany(t, leafCertificate, caIssuer, caCertificate, selfSignedIssuer)
	c.settle()
	leaf := c.verified("leaf-tls", "b.test")
	if authority := c.verified("authority", ""); !authority.IsCA || leaf.IsCA || leaf.Issuer.CommonName != "the authority" ||
		!slices.Equal(leaf.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) || leaf.NotAfter.Sub(leaf.NotBefore) != 8760*time.Hour {
		t.Errorf("the certificate is %+v", leaf)
	}
	secret := c.get("Secret", "leaf-tls")
	want := map[string]string{
		"cert-manager.io/certificate-name": "leaf", "cert-manager.io/issuer-name": "ca", "cert-manager.io/issuer-kind": "Issuer",
		"cert-manager.io/issuer-group": "cert-manager.io", "cert-manager.io/alt-names": "a.test,b.test", "cert-manager.io/common-name": "",
		"cert-manager.io/ip-sans": "", "cert-manager.io/uri-sans": "",
	}
	if got := secret.GetAnnotations(); len(got) != len(want) || !settled(anyOf(got), anyOf(want)) || secret.Object["type"] != "kubernetes.io/tls" {
		t.Errorf("the Secret is of type %v and has %v", secret.Object["type"], got)
	}
	c.is("Certificate", "leaf", "Ready", isTrue, "Ready", "Certificate is up to date and has not expired")
	c.is("Certificate", "leaf", "Issuing", "", "", "")
	c.is("Issuer", "ca", "Ready", isTrue, "KeyPairVerified", "Signing CA verified")
	c.is("Issuer", "self", "Ready", isTrue, "IsReady", "")
	c.is("CertificateRequest", "leaf-1", "Ready", isTrue, "Issued", "Certificate fetched from issuer successfully")
	status, _ := c.get("Certificate", "leaf").Object["status"].(map[string]any)
	if status["revision"] != int64(1) || status["nextPrivateKeySecretName"] != nil ||
		status["notAfter"] != leaf.NotAfter.Format(time.RFC3339) || status["renewalTime"] != leaf.NotAfter.Add(-2920*time.Hour).Format(time.RFC3339) {
		t.Errorf("the status is %v", status)
	}
	if n := len(c.all(secrets)); n != 2 {
		t.Errorf("%d Secrets are left", n)
	}
}

// TestACertificateWaitsForItsIssuer: it says what cert-manager says, and there is no Secret before.
func TestACertificateWaitsForItsIssuer(t *testing.T) {
	c := foundCompany(t, leafCertificate)
	c.step()
	c.is("Certificate", "leaf", "Ready", isFalse, "DoesNotExist", "Issuing certificate as Secret does not exist")
	c.is("Certificate", "leaf", "Issuing", isTrue, "DoesNotExist", "Issuing certificate as Secret does not exist")
	c.settle()
	c.is("CertificateRequest", "leaf-1", "Ready", isFalse, "Pending", `Referenced "Issuer" not found: issuer.cert-manager.io "ca" not found`)
	c.apply(caIssuer)
	c.settle()
	c.is("Issuer", "ca", "Ready", isFalse, "ErrGetKeyPair", `Error getting keypair for CA issuer: secrets "authority" not found`)
	c.is("CertificateRequest", "leaf-1", "Ready", isFalse, "Pending", "Referenced issuer does not have a Ready status condition")
	c.is("Certificate", "leaf", "Ready", isFalse, "DoesNotExist", "")
	if c.get("Secret", "leaf-tls") != nil {
		t.Error("there is a Secret")
	}
	c.apply(caCertificate)
	c.apply(selfSignedIssuer)
	c.settle()
	c.verified("leaf-tls", "a.test")
	c.is("Certificate", "leaf", "Ready", isTrue, "Ready", "")
}

// TestIssuersThatCannotIssue: those without a pair of an authority, and those with a server outside.
func TestIssuersThatCannotIssue(t *testing.T) {
	c := foundCompany(t, leafCertificate, caIssuer, caCertificate, selfSignedIssuer,
		`{kind: Issuer, metadata: {name: leaf}, spec: {ca: {secretName: leaf-tls}}}`,
		`{kind: Issuer, metadata: {name: empty}, spec: {ca: {secretName: empty}}}`, `{kind: Secret, metadata: {name: empty}, data: {}}`,
		`{kind: ClusterIssuer, metadata: {name: acme}, spec: {acme: {server: https://there}}}`,
		`{kind: ClusterIssuer, metadata: {name: ca}, spec: {ca: {secretName: authority}}}`)
	c.settle()
	c.is("Issuer", "leaf", "Ready", isFalse, "ErrInvalidKeyPair", "certificate is not a CA")
	c.is("Issuer", "empty", "Ready", isFalse, "ErrGetKeyPair", `no data for "tls.crt" in secret 'ns/empty'`)
	c.is("ClusterIssuer", "acme", "Ready", isFalse, "ErrRegisterACMEAccount", "Failed to register ACME account")
	c.is("ClusterIssuer", "ca", "Ready", isFalse, "ErrGetKeyPair", `secrets "authority" not found`)
}

// TestAnotherSpecIsIssuedAnew: with another key, unless that is never to change.
func TestAnotherSpecIsIssuedAnew(t *testing.T) {
	for policy, same := range map[string]bool{"Always": false, "Never": true} {
		text := strings.Replace(leafCertificate, "Always", policy, 1)
		c := foundCompany(t, text, caIssuer, caCertificate, selfSignedIssuer)
		c.settle()
		before := c.verified("leaf-tls", "a.test")
		c.apply(strings.Replace(text, "[a.test, b.test]", "[c.test]", 1))
		c.step()
		c.is("Certificate", "leaf", "Ready", isFalse, "RequestChanged", "Fields on existing CertificateRequest resource not up to date: [spec.dnsNames]")
		c.is("Certificate", "leaf", "Issuing", isTrue, "RequestChanged", "")
		c.settle()
		after := c.verified("leaf-tls", "c.test")
		if sameKey(before.PublicKey, after.PublicKey) != same {
			t.Errorf("%s: the key is the same: %v", policy, !same)
		}
		if got := valueAt(c.get("Certificate", "leaf").Object, "status", "revision"); got != int64(2) || c.get("CertificateRequest", "leaf-1") != nil {
			t.Errorf("%s: the revision is %v, and the requests are %v", policy, got, c.all(requests))
		}
		c.is("Certificate", "leaf", "Ready", isTrue, "Ready", "")
	}
}

// TestAKeyThatIsNeverToChangeStays: where the spec asks for another kind of key only the user can help.
func TestAKeyThatIsNeverToChangeStays(t *testing.T) {
	text := strings.Replace(leafCertificate, "Always", "Never", 1)
	c := foundCompany(t, text, caIssuer, caCertificate, selfSignedIssuer)
	c.settle()
	before := c.verified("leaf-tls", "a.test")
	c.apply(strings.Replace(text, "size: 256", "size: 384", 1))
	c.settle()
	c.is("Certificate", "leaf", "Ready", isFalse, "SecretMismatch", "Existing private key is not up to date for spec: [spec.privateKey.size]")
	if !before.Equal(c.verified("leaf-tls", "a.test")) {
		t.Error("it is issued anew")
	}
}

// TestWhatIsLostIsIssuedAnew: a Secret that was deleted, whose key is another's, or that is due.
func TestWhatIsLostIsIssuedAnew(t *testing.T) {
	for reason, spoil := range map[string]func(*company){
		"DoesNotExist": func(c *company) {
			if err := c.m.client.Resource(secrets).Namespace("ns").Delete(context.Background(), "leaf-tls", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		},
		"InvalidKeyPair": func(c *company) {
			u := c.get("Secret", "leaf-tls")
			u.Object["data"].(map[string]any)["tls.key"] = valueAt(c.get("Secret", "authority").Object, "data", "tls.key")
			if _, err := c.m.client.Resource(secrets).Namespace("ns").Update(context.Background(), u, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		},
		"Renewing": func(c *company) { c.clock = c.clock.Add(5840 * time.Hour) },
	} {
		c := foundCompany(t, leafCertificate, caIssuer, caCertificate, selfSignedIssuer)
		c.settle()
		before := c.verified("leaf-tls", "a.test")
		spoil(c)
		c.step()
		c.is("Certificate", "leaf", "Issuing", isTrue, reason, "")
		c.settle()
		if before.Equal(c.verified("leaf-tls", "a.test")) {
			t.Errorf("%s: nothing was issued", reason)
		}
	}
}

// TestASettledCertificateIsNotWritten: nothing is left to do, but to renew it.
func TestASettledCertificateIsNotWritten(t *testing.T) {
	c := foundCompany(t, leafCertificate, caIssuer, caCertificate, selfSignedIssuer)
	c.settle()
	client, ok := c.m.client.(*dynamicfake.FakeDynamicClient)
	if !ok {
		t.Fatalf("the client is a %T", c.m.client)
	}
	client.ClearActions()
	again, err := c.m.act(context.Background(), certItem{certificates, "ns", "leaf"})
	if err != nil || again < 5839*time.Hour || again > 5840*time.Hour {
		t.Errorf("it is looked at again after %s: %v", again, err)
	}
	c.step()
	for _, action := range client.Actions() {
		if verb := action.GetVerb(); verb != "get" && verb != "list" {
			t.Errorf("%s %s", verb, action.GetResource().Resource)
		}
	}
}

// TestAFailedIssuanceIsTriedAgainLater: at once for another spec.
func TestAFailedIssuanceIsTriedAgainLater(t *testing.T) {
	text := strings.Replace(leafCertificate, "server auth", "nonsense", 1)
	c := foundCompany(t, text, caIssuer, caCertificate, selfSignedIssuer)
	c.settle()
	c.is("Certificate", "leaf", "Issuing", isFalse, "Failed",
		"The certificate request has failed to complete and will be retried: Error signing certificate: unknown key usages: [nonsense]")
	if got := valueAt(c.get("Certificate", "leaf").Object, "status", "failedIssuanceAttempts"); got != int64(1) {
		t.Errorf("it was tried %v times", got)
	}
	c.clock = c.clock.Add(time.Minute)
	c.settle()
	c.is("Certificate", "leaf", "Issuing", isFalse, "Failed", "")
	c.clock = c.clock.Add(time.Hour)
	c.settle()
	if got := valueAt(c.get("Certificate", "leaf").Object, "status", "failedIssuanceAttempts"); got != int64(2) {
		t.Errorf("it was tried %v times", got)
	}
	c.clock = c.clock.Add(time.Minute)
	c.apply(leafCertificate)
	c.settle()
	c.verified("leaf-tls", "a.test")
}

// TestWhatIsLeftAlone: what opted out, what is not played, and what another Certificate fills.
func TestWhatIsLeftAlone(t *testing.T) {
	const other = `
kind: Certificate
metadata: {name: %}
spec: {secretName: %, dnsNames: [a.test], issuerRef: {name: self}}`
	named := func(name, secret, more string) string {
		text := strings.Replace(strings.Replace(other, "%", name, 1), "%", secret, 1)
		return strings.Replace(text, "spec: {", "spec: {"+more, 1)
	}
	c := foundCompany(t, selfSignedIssuer, named("a", "shared", ""), named("b", "shared", ""),
		named("store", "store", "keystores: {jks: {create: true}}, "),
		strings.Replace(named("out", "out", ""), "{name: out}", `{name: out, annotations: {devcluster.mlkeeper.dev/stand-in: "off"}}`, 1))
	c.settle()
	c.is("Certificate", "a", "Ready", isTrue, "Ready", "")
	c.is("Certificate", "b", "Ready", isFalse, "IncorrectCertificate", `Secret was issued for "a"`)
	for _, name := range []string{"store", "out"} {
		if u := c.get("Certificate", name); u.Object["status"] != nil || c.get("Secret", name) != nil {
			t.Errorf("%s has the status %v", name, u.Object["status"])
		}
	}
}
