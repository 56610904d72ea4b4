package trustyai

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/pki"
)

func compactJSON(t testing.TB, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func Test_OwnCertificatesAreStableAndRenewed(t *testing.T) {
	c, cr := newCluster(), custom(t, upstreamSpec)
	first, p := stored(t, c, cr)
	if first.Certs.Source != CertsOwn || len(first.Certs.Own) != 3 || p.WakeAt.IsZero() {
		t.Fatalf("%+v", first.Certs)
	}
	if at := first.Certs.RenewAt.Sub(testNow); at < pki.LeafLife/2 || at > pki.LeafLife {
		t.Errorf("renewed after %s", at)
	}
	again, q := gatherAndRender(t, c, cr)
	if again.Certs.Digest != first.Certs.Digest || !bytes.Equal(print(t, p), print(t, q)) {
		t.Fatal("the certificates are made anew though they are there")
	}
	authority, err := pki.Decode(again.Certs.Own[0].Cert, again.Certs.Own[0].Key)
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range again.Certs.Own[1:] {
		leaf, err := pki.Decode(own.Cert, own.Key)
		if err != nil || leaf.Cert.CheckSignatureFrom(authority.Cert) != nil || !bytes.Equal(own.CA, authority.CertPEM) {
			t.Errorf("%s is not signed by the authority: %v", own.Name, err)
		}
	}
	// One second before the time nothing changes; at the time both leaves are renewed by the same authority.
	c.Time = first.Certs.RenewAt.Add(-time.Second)
	if early, _ := gatherAndRender(t, c, cr); early.Certs.Digest != first.Certs.Digest {
		t.Error("renewed too early")
	}
	c.Time = first.Certs.RenewAt.Add(time.Second)
	if due, _ := gatherAndRender(t, c, cr); due.Certs.Digest != first.Certs.Digest {
		t.Error("the pods are told of certificates that are not stored")
	}
	stored(t, c, cr)
	renewed, _ := gatherAndRender(t, c, cr)
	if renewed.Certs.Digest == first.Certs.Digest || renewed.Certs.CA != first.Certs.CA || !renewed.Certs.RenewAt.After(c.Time) {
		t.Error("not renewed by the same authority")
	}
}

func Test_OwnCertificatesFollowTheirNames(t *testing.T) {
	c, cr := newCluster(), custom(t, upstreamSpec)
	first, _ := stored(t, c, cr)
	s := testSystem()
	s.settings.ClusterDomain = "example.org"
	facts, err := s.Gather(context.Background(), c, cr)
	if err != nil || bytes.Equal(facts.Certs.Own[1].Cert, first.Certs.Own[1].Cert) || facts.Certs.CA != first.Certs.CA {
		t.Error("certificates for other names are kept", err)
	}
}

func Test_OwnCertificatesAreNotMadeTwice(t *testing.T) {
	c, cr := newCluster(), custom(t, upstreamSpec)
	stored(t, c, cr)
	// The Secret was written a moment ago: the cache of children knows it, the other does not yet.
	delete(c.Objects, plan.Key{GroupKind: gvkSecret.GroupKind(), Namespace: "ns", Name: "tas-internal"})
	if _, err := testSystem().Gather(context.Background(), c, cr); err == nil {
		t.Error("new certificates are made")
	}
}

func Test_ASourceNeverFlipsByItself(t *testing.T) {
	c, cr := newCluster(), custom(t, upstreamSpec)
	stored(t, c, cr)
	c.APIs[gvkServiceCA], c.APIs[gvkCertificate] = true, true
	if facts, _ := gatherAndRender(t, c, cr); facts.Certs.Source != CertsOwn {
		t.Errorf("own flips to %s", facts.Certs.Source)
	}
	made := secretOf2("ns", "tas-tls", map[string]string{"tls.crt": "x", "tls.key": "y"})
	for annotation, want := range map[string]CertSource{
		"cert-manager.io/certificate-name":                   CertsCertManager,
		"service.beta.openshift.io/originating-service-name": CertsServiceCA,
	} {
		c = newCluster(gvkServiceCA)
		made.SetAnnotations(map[string]string{annotation: "tas-tls"})
		c.Put(made)
		if facts, _ := gatherAndRender(t, c, cr); facts.Certs.Source != want {
			t.Errorf("%s flips to %s", want, facts.Certs.Source)
		}
	}
	cr.Spec.TLS = &v1.TLSSpec{SecretName: "mine"}
	if facts, _ := gatherAndRender(t, c, cr); facts.Certs.Source != CertsUser {
		t.Error("the spec does not decide")
	}
}

func Test_GarbageInASecretIsReplaced(t *testing.T) {
	c, cr := newCluster(), custom(t, upstreamSpec)
	stored(t, c, cr)
	c.Own(secretOf2("ns", "tas-tls", map[string]string{"tls.crt": "garbage", "tls.key": "garbage"}), testOwner)
	facts, _ := gatherAndRender(t, c, cr)
	if _, err := pki.Decode(facts.Certs.Own[1].Cert, facts.Certs.Own[1].Key); err != nil {
		t.Error(err)
	}
	if facts.Certs.Digest != "" || facts.Certs.AwaitsLeaf != "tas-tls" {
		t.Errorf("the pods are told of it: %+v", facts.Certs)
	}
}

// Test_WhatCannotSignIsNoAuthority: with a certificate of a server in its place, each pass would make other certificates, and restart the pods.
func Test_WhatCannotSignIsNoAuthority(t *testing.T) {
	c, cr := newCluster(), custom(t, upstreamSpec)
	stored(t, c, cr)
	for _, usage := range []x509.KeyUsage{x509.KeyUsageDigitalSignature, x509.KeyUsageCertSign} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), NotBefore: testNow.Add(-time.Hour), NotAfter: testNow.Add(pki.AuthorityLife), KeyUsage: usage,
			BasicConstraintsValid: true, IsCA: usage != x509.KeyUsageCertSign,
		}
		cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		c.Own(secretOf2("ns", "tas-ca", map[string]string{
			"tls.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})),
			"tls.key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})),
		}), testOwner)
		stored(t, c, cr) // The authority, and certificates of it.
		facts, _ := stored(t, c, cr)
		if again, _ := gatherAndRender(t, c, cr); again.Certs.Digest != facts.Certs.Digest || !bytes.Equal(again.Certs.Own[1].Cert, facts.Certs.Own[1].Cert) {
			t.Errorf("with the usage %d, the certificates are made anew in each pass", usage)
		}
	}
}

// TestInvariant19NothingDependsOnWhatIsNotStored has a Secret of somebody under the name of each that is generated: whatever depends on
// it is held, and nothing that is stored is made anew.
func TestInvariant19NothingDependsOnWhatIsNotStored(t *testing.T) {
	for _, name := range []string{"tas-tls", "tas-internal", "tas-ca"} {
		for _, runs := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s of a service that runs: %t", name, runs), func(t *testing.T) {
				c, cr := newCluster(), custom(t, upstreamSpec)
				before := Facts{}
				if runs {
					before, _ = stored(t, c, cr)
				}
				theirs := secretOf2("ns", name, map[string]string{"tls.crt": "theirs", "tls.key": "theirs"})
				delete(c.Children, plan.KeyOf(theirs))
				c.Put(theirs)
				facts, p := gatherAndRender(t, c, cr)
				for range 3 {
					for _, o := range p.Stages[0].Objects {
						if o.Hold == "" && o.Desired.GetName() != name {
							c.Own(o.Desired.DeepCopy(), ownerID(cr))
						}
					}
					facts, p = gatherAndRender(t, c, cr)
				}
				for _, o := range p.Stages[0].Objects {
					kind, dependsOn := o.Desired.GetKind(), ""
					// Certificates that are in use need their authority no more.
					if kind == "ServiceMonitor" && name == "tas-ca" && !runs {
						dependsOn = name
					}
					if kind == "Deployment" && (name != "tas-ca" || !runs) || kind == "Route" && name == "tas-ca" && !runs {
						dependsOn = name
						if kind == "Deployment" && name == "tas-ca" {
							dependsOn = "tas-tls" // It is not made, for want of the authority.
						}
					}
					if strings.Contains(o.Hold, dependsOn) != (o.Hold != "" || dependsOn == "") || (o.Hold != "") != (dependsOn != "") {
						t.Errorf("%s is held for %q", o.Key(), o.Hold)
					}
				}
				if name == "tas-ca" && runs && facts.Certs.Digest != before.Certs.Digest {
					t.Error("the certificates are made anew by an authority that is not stored")
				}
			})
		}
	}
}

// Test_ALostAuthorityRestartsNoPod: what it signed stays in use, and is trusted by what trusted it, until it is due, however often the authority
// is deleted. Then the new one signs, with the one before beside it.
func Test_ALostAuthorityRestartsNoPod(t *testing.T) {
	c, cr := newCluster(), custom(t, upstreamSpec)
	before, _ := stored(t, c, cr)
	for range 3 {
		c.Remove(plan.Key{GroupKind: gvkSecret.GroupKind(), Namespace: "ns", Name: "tas-ca"})
		for _, step := range []string{"lost", "made again"} {
			facts, p := gatherAndRender(t, c, cr)
			if facts.Certs.Digest != before.Certs.Digest || facts.Certs.CA != before.Certs.CA || facts.Certs.AwaitsCA != "" {
				t.Errorf("%s, it changes what is in use: %+v", step, facts.Certs)
			}
			for i, own := range facts.Certs.Own[1:] {
				if was := before.Certs.Own[i+1]; !bytes.Equal(own.Cert, was.Cert) || !bytes.Equal(own.CA, was.CA) {
					t.Errorf("%s, it changes %s", step, own.Name)
				}
			}
			c.Written(p, ownerID(cr))
		}
	}
	c.Time = before.Certs.RenewAt.Add(time.Second)
	stored(t, c, cr)
	after, _ := gatherAndRender(t, c, cr)
	if after.Certs.Digest == before.Certs.Digest || !strings.Contains(after.Certs.CA, before.Certs.CA) || after.Certs.CA == before.Certs.CA {
		t.Error("the new authority does not sign what is due, or the one before is not trusted beside it")
	}
}

// Test_ABundleIsBounded: the bundle of a Secret that a tenant may write is verified with in every pass.
func Test_ABundleIsBounded(t *testing.T) {
	authority, err := pki.NewAuthority(rand.Reader, testNow, "a")
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := pki.NewLeaf(rand.Reader, testNow, authority, []string{"a.example"})
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]bool{1: true, 16: true, 17: false} {
		bundle := bytes.Repeat(authority.CertPEM, n)
		if pki.OnlyAuthorities(bundle) != want || (leaf.Signer(bundle, testNow) != nil) != want {
			t.Errorf("%d authorities", n)
		}
	}
	if leaf.Signer(leaf.CertPEM, testNow) != nil || leaf.Signer(nil, testNow) != nil || leaf.Signer(authority.CertPEM, testNow.Add(pki.AuthorityLife)) != nil {
		t.Error("a leaf, nothing, or what has expired signed it")
	}
}

// Test_APodIsNotRestartedForWhatIsLostAgain: a certificate that was deleted, or made empty, is made again, and counts once it has stood for a while.
func Test_APodIsNotRestartedForWhatIsLostAgain(t *testing.T) {
	key := plan.Key{GroupKind: gvkSecret.GroupKind(), Namespace: "ns", Name: "tas-tls"}
	for name, c := range map[string]struct {
		lose func(*cluster)
		// made is when the Secret that holds the next certificate was made.
		made time.Time
	}{
		"deleted": {func(c *cluster) { c.Remove(key) }, testNow.Add(time.Hour)},
		"emptied": {func(c *cluster) { c.Objects[key].Object["data"] = map[string]any{"tls.crt": "", "tls.key": ""} }, testNow},
	} {
		t.Run(name, func(t *testing.T) {
			lost, made := c.lose, c.made
			c, cr := newCluster(), custom(t, upstreamSpec)
			before, p := stored(t, c, cr)
			c.Own(mustFind(t, p, "NetworkPolicy", "tas-secured"), ownerID(cr))
			for _, o := range c.Children {
				o.SetCreationTimestamp(metav1.NewTime(testNow))
			}
			c.Time = testNow.Add(time.Hour)
			lost(c)
			_, p = gatherAndRender(t, c, cr)
			again := mustFind(t, p, "Secret", "tas-tls").DeepCopy()
			again.SetCreationTimestamp(metav1.NewTime(made))
			c.Own(again, ownerID(cr))
			facts, p := gatherAndRender(t, c, cr)
			if facts.Certs.AwaitsLeaf != "tas-tls" || deploymentIn(t, p).Hold == "" || !p.WakeAt.Equal(c.Time.Add(standsFor)) {
				t.Errorf("the pods are restarted at once: %+v, again at %s", facts.Certs, p.WakeAt)
			}
			c.Time = c.Time.Add(standsFor)
			facts, p = gatherAndRender(t, c, cr)
			if facts.Certs.Digest == "" || facts.Certs.Digest == before.Certs.Digest || deploymentIn(t, p).Hold != "" {
				t.Errorf("the pods are not restarted: %+v", facts.Certs)
			}
		})
	}
}

// Test_CertificatesStayWithoutAMark: whoever takes one of the marks off a Secret has it repaired, and no other certificates.
func Test_CertificatesStayWithoutAMark(t *testing.T) {
	c, cr := newCluster(), custom(t, upstreamSpec)
	before, _ := stored(t, c, cr)
	c.APIs[gvkCertificate] = true
	for _, name := range []string{"tas-ca", "tas-tls", "tas-internal"} {
		u := c.Objects[plan.Key{GroupKind: gvkSecret.GroupKind(), Namespace: "ns", Name: name}]
		u.SetAnnotations(nil)
		u.SetLabels(map[string]string{keeper.StackLabel: stackOf(cr).Hash()})
	}
	facts, _ := gatherAndRender(t, c, cr)
	if facts.Certs.Source != CertsOwn || facts.Certs.Digest != before.Certs.Digest || facts.Certs.CA != before.Certs.CA ||
		!bytes.Equal(facts.Certs.Own[0].Key, before.Certs.Own[0].Key) {
		t.Errorf("they are made anew, of the source %s", facts.Certs.Source)
	}
}

// startsWithCertificates goes through what a source brings one after the other, and wants pods to wait for the last of it: those
// that were started meanwhile would be restarted once it is there.
func startsWithCertificates(t *testing.T, c *cluster, cr *v1.TrustyAIService, annotation string) {
	t.Helper()
	for _, missing := range []string{"tas-tls", "tas-internal", ""} {
		facts, p := gatherAndRender(t, c, cr)
		if (facts.Certs.Digest == "") != (missing != "") {
			t.Errorf("while %q is missing, the digest is %q", missing, facts.Certs.Digest)
		}
		for _, o := range p.Stages[0].Objects {
			if held := o.Hold != ""; held != (missing != "" && o.Desired.GetKind() == "Deployment") || !strings.Contains(o.Hold, missing) && held {
				t.Errorf("while %q is missing, %s is held for %q", missing, o.Key(), o.Hold)
			}
		}
		c.Own(mustFind(t, p, "NetworkPolicy", "tas-secured"), testOwner)
		if missing != "" {
			u := secretOf2("ns", missing, map[string]string{"tls.crt": "c", "tls.key": "k", "ca.crt": pemOf("a")})
			u.SetAnnotations(map[string]string{annotation: missing})
			c.Put(u)
		}
	}
}

func Test_PodsStartWithTheCertificatesOfCertManager(t *testing.T) {
	for _, tls := range []string{"", "  tls: {issuerRef: {name: corp}}\n"} {
		startsWithCertificates(t, newCluster(gvkCertificate), custom(t, upstreamSpec+tls), "cert-manager.io/certificate-name")
	}
}

// Test_ASecretOfSomebodyIsNotGivenToCertManager: it takes any Secret that a Certificate names, and the key that was in it is lost.
func Test_ASecretOfSomebodyIsNotGivenToCertManager(t *testing.T) {
	for _, tc := range []struct {
		name, tls, annotation, value string
		adopt                        bool
		want                         string
	}{
		{name: "tas-tls", want: "Waiting ResourceConflict"},
		{name: "tas-internal", want: "Waiting ResourceConflict"},
		{name: "tas-ca", want: "Waiting ResourceConflict"},
		{name: "tas-tls", tls: "  tls: {issuerRef: {name: corp}}\n", want: "Waiting ResourceConflict"},
		{name: "tas-ca", tls: "  tls: {issuerRef: {name: corp}}\n"},
		{name: "tas-tls", annotation: certificateAnnotation, value: "shop", want: "Waiting ResourceConflict"},
		{name: "tas-tls", annotation: certificateAnnotation, value: "tas-tls"},
		{name: "tas-tls", annotation: "service.beta.openshift.io/originating-service-name", value: "tas-tls", tls: "  tls: {issuerRef: {name: corp}}\n"},
		{name: "tas-tls", annotation: keeper.OwnerAnnotation, value: testOwner, tls: "  tls: {issuerRef: {name: corp}}\n"},
		{name: "tas-tls", adopt: true},
	} {
		c, cr := newCluster(gvkCertificate), custom(t, upstreamSpec+tc.tls)
		if tc.adopt {
			cr.Annotations = map[string]string{keeper.AdoptAnnotation: "true"}
		}
		u := secretOf2("ns", tc.name, map[string]string{"tls.crt": "theirs", "tls.key": "theirs", "ca.crt": "theirs"})
		u.SetAnnotations(map[string]string{tc.annotation: tc.value})
		c.Put(u)
		_, p := gatherAndRender(t, c, cr)
		if reasons(p) != tc.want || (find(p, "Certificate", tc.name) == nil) != (tc.want != "" || tc.name == "tas-ca" && tc.tls != "") {
			t.Errorf("%+v: the problems are %v", tc, p.Problems)
		}
		if text := compactJSON(t, mustFind(t, p, "Route", "tas").Object); tc.want != "" && strings.Contains(text, "theirs") {
			t.Errorf("%+v: the Route is %s", tc, text)
		}
		for _, o := range p.Stages[0].Objects {
			if o.Desired.GetKind() == "Deployment" && tc.want != "" && !strings.Contains(o.Hold, tc.name) {
				t.Errorf("%+v: the Deployment waits for %q", tc, o.Hold)
			}
		}
		// Once there is a Certificate, cert-manager has the Secret.
		c.Written(p, testOwner)
		c.Own(parse(t, "{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: "+tc.name+", namespace: ns}}"), testOwner)
		if _, p = gatherAndRender(t, c, cr); len(p.Problems) > 0 {
			t.Errorf("%+v: beside the Certificate, the problems are %v", tc, p.Problems)
		}
	}
}

// Test_ASecretOfSomebodyIsNotServedWith: service-ca writes no Secret of another, whatever the service may adopt, and a router would not verify what
// is in it.
func Test_ASecretOfSomebodyIsNotServedWith(t *testing.T) {
	for _, tc := range []struct {
		name, annotation, value, want string
	}{
		{name: "tas-tls", want: "Waiting ResourceConflict"},
		{name: "tas-internal", want: "Waiting ResourceConflict"},
		{name: "tas-internal", annotation: certificateAnnotation, value: "tas-internal", want: "Waiting ResourceConflict"},
		{name: "tas-internal", annotation: keeper.OwnerAnnotation, value: testOwner},
		{name: "tas-tls", annotation: "service.alpha.openshift.io/originating-service-name", value: "tas-tls"},
	} {
		c, cr := newCluster(gvkServiceCA, gvkCertificate), custom(t, upstreamSpec)
		cr.Annotations = map[string]string{keeper.AdoptAnnotation: "true"}
		for _, name := range []string{"tas-tls", "tas-internal"} {
			c.Put(servingCertificate(name, map[string]string{"tls.crt": "c", "tls.key": "k"}))
		}
		u := secretOf2("ns", tc.name, map[string]string{"tls.crt": "theirs", "tls.key": "theirs", "ca.crt": "theirs"})
		u.SetAnnotations(map[string]string{tc.annotation: tc.value})
		c.Put(u)
		facts, p := gatherAndRender(t, c, cr)
		if facts.Certs.Source != CertsServiceCA || (facts.Certs.Digest == "") != (tc.want != "") || reasons(p) != tc.want {
			t.Errorf("%+v: the source is %s, and the problems are %v", tc, facts.Certs.Source, p.Problems)
		}
		for _, problem := range p.Problems {
			if !strings.Contains(problem.Message, tc.name) || !strings.Contains(problem.Message, "service-ca") {
				t.Errorf("%+v: the message is %q", tc, problem.Message)
			}
		}
		c.Own(mustFind(t, p, "NetworkPolicy", "tas-secured"), testOwner)
		_, p = gatherAndRender(t, c, cr)
		if held := deploymentIn(t, p).Hold; (held != "") != (tc.want != "") || held != "" && !strings.Contains(held, tc.name) {
			t.Errorf("%+v: the Deployment waits for %q", tc, held)
		}
	}
}

func Test_PodsStartWithTheCertificatesOfServiceCA(t *testing.T) {
	startsWithCertificates(t, newCluster(gvkServiceCA), custom(t, upstreamSpec), "service.beta.openshift.io/originating-service-name")
}

// Test_ARunningServiceKeepsItsCertificates: a spec that names certificates which do not exist, or an issuer without cert-manager, does
// not restart the pods of a service that runs, and does not change what its clients trust.
func Test_ARunningServiceKeepsItsCertificates(t *testing.T) {
	for _, tls := range []v1.TLSSpec{{SecretName: "absent"}, {IssuerRef: &v1.IssuerReference{Name: "corp"}}} {
		c, cr := newCluster(), custom(t, upstreamSpec)
		cr.Spec.Image = "quay.io/trustyai/trustyai-service:latest" // It is scraped over TLS.
		before, first := stored(t, c, cr)
		cr.Spec.TLS = &tls
		_, p := gatherAndRender(t, c, cr)
		if len(p.Problems) != 1 || p.Problems[0].Class != plan.Waiting {
			t.Errorf("%+v: the problems are %v", tls, p.Problems)
		}
		for _, kind := range []string{"Deployment", "Route", "ServiceMonitor"} {
			for _, o := range p.Stages[0].Objects {
				if o.Desired.GetKind() != kind || o.Hold != "" {
					continue
				}
				if was := mustFind(t, first, kind, o.Desired.GetName()); compactJSON(t, was) != compactJSON(t, o.Desired) {
					t.Errorf("%+v: the %s would be changed, with the digest %s before", tls, kind, before.Certs.Digest)
				}
			}
		}
	}
}

// Test_ARenewedAuthorityOfCertManagerKeepsItsKey looks at what TestRenewedAuthority in test/certmanager shows on cert-manager.
func Test_ARenewedAuthorityOfCertManagerKeepsItsKey(t *testing.T) {
	_, p := gatherAndRender(t, newCluster(gvkCertificate), custom(t, upstreamSpec))
	for name, want := range map[string]string{"tas-ca": "Never", "tas-tls": "Always", "tas-internal": "Always"} {
		got, _, _ := unstructured.NestedString(mustFind(t, p, "Certificate", name).Object, "spec", "privateKey", "rotationPolicy")
		if got != want {
			t.Errorf("the key of %s is rotated %q, not %q", name, got, want)
		}
	}
}

func Test_WhatIsPrintedHasEveryCertificate(t *testing.T) {
	c, cr, s := newCluster(), custom(t, upstreamSpec), testSystem()
	s.settings.DryRun = true
	facts, err := s.Gather(context.Background(), c, cr)
	if err != nil || len(facts.Certs.Own) != 3 || facts.Certs.Digest == "" || facts.Certs.CA == "" || facts.Certs.AwaitsCA+facts.Certs.AwaitsLeaf != "" {
		t.Errorf("%+v, %v", facts.Certs, err)
	}
}

func Test_PodsStartWithTheCertificateOfTheUser(t *testing.T) {
	c, cr := newCluster(), custom(t, upstreamSpec+"  tls: {secretName: mine}\n")
	deployment := func() plan.Object {
		_, p := gatherAndRender(t, c, cr)
		c.Own(mustFind(t, p, "NetworkPolicy", "tas-secured"), testOwner)
		for _, o := range p.Stages[0].Objects {
			if o.Desired.GetKind() == "Deployment" {
				return o
			}
		}
		t.Fatal("there is no Deployment")
		return plan.Object{}
	}
	deployment()
	for _, data := range []map[string]string{nil, {"tls.crt": "c"}, {"tls.crt": "c", "tls.key": "k"}} {
		if data != nil {
			c.Put(secretOf2("ns", "mine", data))
		}
		if held := deployment().Hold; (held != "") != (len(data) < 2) || held != "" && !strings.Contains(held, "mine") {
			t.Errorf("with %v the Deployment is held for %q", data, held)
		}
	}
}

// Test_AKeyThatNoPodReadsRestartsNone: whoever makes a Secret with a certificate may keep more in it, such as a keystore.
func Test_AKeyThatNoPodReadsRestartsNone(t *testing.T) {
	for name, spec := range map[string]string{"of the user": "  tls: {secretName: mine}\n", "of an issuer": "  tls: {issuerRef: {name: corp}}\n"} {
		digest := func(pairs ...string) string {
			c, cr := newCluster(gvkCertificate), custom(t, upstreamSpec+spec)
			for _, name := range []string{"mine", "tas-tls", "tas-internal"} {
				data := map[string]string{"tls.crt": "c", "tls.key": "k"}
				for i := 0; i < len(pairs); i += 2 {
					data[pairs[i]] = pairs[i+1]
				}
				secret := secretOf2("ns", name, data)
				secret.SetAnnotations(map[string]string{certificateAnnotation: name})
				c.Put(secret)
			}
			facts, _ := gatherAndRender(t, c, cr)
			return facts.Certs.Digest
		}
		both := map[string][]byte{"tls.crt": []byte("c"), "tls.key": []byte("k")}
		want := newCluster().Digest(both)
		if strings.Contains(spec, "issuerRef") {
			want = newCluster().Digest(both, both)
		}
		// As releases before have it, so that an upgrade restarts no pods.
		if got := digest(); got != want {
			t.Errorf("%s: the digest is %q, not %q", name, got, want)
		}
		if got := digest("keystore.p12", "s", "tls-combined.pem", "kc"); got != want {
			t.Errorf("%s: keys that no pod reads change the digest", name)
		}
		for _, key := range []string{"tls.crt", "tls.key", "ca.crt"} {
			if digest(key, "another") == want {
				t.Errorf("%s: another %s does not change the digest", name, key)
			}
		}
	}
}

// issued is a Secret with a certificate that is valid for a year from testNow.
func issued(t testing.TB, name, annotation string) *unstructured.Unstructured {
	t.Helper()
	authority, err := pki.NewAuthority(rand.Reader, testNow, "ca")
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := pki.NewLeaf(rand.Reader, testNow, authority, []string{"tas"})
	if err != nil {
		t.Fatal(err)
	}
	u := secretOf2("ns", name, map[string]string{"tls.crt": string(leaf.CertPEM), "tls.key": string(leaf.KeyPEM), "ca.crt": string(authority.CertPEM)})
	u.SetAnnotations(map[string]string{annotation: name})
	return u
}

// Test_AnExpiryIsTold: certificates of cert-manager are used on when that is removed, and whoever has a certificate of his own may forget it.
func Test_AnExpiryIsTold(t *testing.T) {
	for _, tc := range []struct{ name, spec, remedy string }{
		{"cert-manager is removed", "", "delete the Secrets tas-tls, tas-internal and tas-ca"},
		{"cert-manager is removed, and an issuer named", "  tls: {issuerRef: {name: corp}}\n", "remove spec.tls.issuerRef"},
		{"of the user", "  tls: {secretName: tas-tls}\n", "replace it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, cr := newCluster(gvkCertificate), custom(t, upstreamSpec+tc.spec)
			c.Put(issued(t, "tas-tls", "cert-manager.io/certificate-name"))
			c.Put(issued(t, "tas-internal", "cert-manager.io/certificate-name"))
			facts, p := gatherAndRender(t, c, cr)
			expires := facts.Certs.ExpiresAt
			if len(p.Warnings)+len(p.Problems) > 0 || !expires.After(testNow) || !p.WakeAt.Equal(expires) {
				t.Fatalf("while it is renewed: warnings %v, problems %v, woken at %s, expires at %s", p.Warnings, p.Problems, p.WakeAt, expires)
			}
			users := strings.Contains(tc.spec, "secretName")
			c.APIs[gvkCertificate] = false
			_, p = gatherAndRender(t, c, cr)
			if text := strings.Join(p.Warnings, " "); !users && (!strings.Contains(text, expires.Format(time.RFC3339)) || !strings.Contains(text, tc.remedy)) || users && text != "" {
				t.Errorf("once nobody renews it, the warnings are %q", text)
			}
			c.Time = expires.Add(time.Second)
			_, p = gatherAndRender(t, c, cr)
			last := plan.Problem{}
			if len(p.Problems) > 0 {
				last = p.Problems[len(p.Problems)-1]
			}
			if last.Class != plan.Waiting || last.Reason != "CertificateExpired" || !strings.Contains(last.Error(), tc.remedy) {
				t.Errorf("once it has expired, the problems are %v", p.Problems)
			}
			if find(p, "Deployment", "tas") == nil {
				t.Error("the pods are taken away")
			}
		})
	}
}

// Test_ARouteWithoutAnAuthorityIsWarnedOf: a router verifies the service, and knows no authority but service-ca.
func Test_ARouteWithoutAnAuthorityIsWarnedOf(t *testing.T) {
	for _, tc := range []struct {
		name   string
		routes bool
		data   map[string]string
		warned bool
	}{
		{"without ca.crt", true, map[string]string{"tls.crt": "c", "tls.key": "k"}, true},
		{"with ca.crt", true, map[string]string{"tls.crt": "c", "tls.key": "k", "ca.crt": pemOf("a")}, false},
		{"without a certificate in ca.crt", true, map[string]string{"tls.crt": "c", "tls.key": "k", "ca.crt": "a"}, true},
		{"without Routes", false, map[string]string{"tls.crt": "c", "tls.key": "k"}, false},
		{"without the Secret", true, nil, false},
	} {
		c, cr := newCluster(), custom(t, upstreamSpec+"  tls: {secretName: mine}\n")
		c.APIs[gvkRoute] = tc.routes
		if tc.data != nil {
			c.Put(secretOf2("ns", "mine", tc.data))
		}
		_, p := gatherAndRender(t, c, cr)
		text := strings.Join(p.Warnings, " ")
		if warned := strings.Contains(text, "Secret mine has no ca.crt") && strings.Contains(text, "503"); warned != tc.warned || !warned && text != "" {
			t.Errorf("%s: the warnings are %q", tc.name, text)
		}
	}
}
