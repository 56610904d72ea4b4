package trustyai

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

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
	first, p := gatherAndRender(t, c, cr)
	if first.Certs.Source != CertsOwn || len(first.Certs.Own) != 3 || p.WakeAt.IsZero() {
		t.Fatalf("%+v", first.Certs)
	}
	if at := first.Certs.RenewAt.Sub(testNow); at < pki.LeafLife/2 || at > pki.LeafLife {
		t.Errorf("renewed after %s", at)
	}
	c.Written(p, testOwner)
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
	renewed, _ := gatherAndRender(t, c, cr)
	if renewed.Certs.Digest == first.Certs.Digest || renewed.Certs.CA != first.Certs.CA || !renewed.Certs.RenewAt.After(c.Time) {
		t.Error("not renewed by the same authority")
	}
}

func Test_OwnCertificatesFollowTheirNames(t *testing.T) {
	c, cr := newCluster(), custom(t, upstreamSpec)
	first, p := gatherAndRender(t, c, cr)
	c.Written(p, testOwner)
	s := testSystem()
	s.settings.ClusterDomain = "example.org"
	facts, err := s.Gather(context.Background(), c, cr)
	if err != nil || facts.Certs.Digest == first.Certs.Digest || facts.Certs.CA != first.Certs.CA {
		t.Error("certificates for other names are kept", err)
	}
}

func Test_OwnCertificatesAreNotMadeTwice(t *testing.T) {
	c, cr := newCluster(), custom(t, upstreamSpec)
	_, p := gatherAndRender(t, c, cr)
	c.Written(p, testOwner)
	// The Secret was written a moment ago: the cache of children knows it, the other does not yet.
	delete(c.Objects, plan.Key{GroupKind: gvkSecret.GroupKind(), Namespace: "ns", Name: "tas-internal"})
	if _, err := testSystem().Gather(context.Background(), c, cr); err == nil {
		t.Error("new certificates are made")
	}
}

func Test_ASourceNeverFlipsByItself(t *testing.T) {
	c, cr := newCluster(), custom(t, upstreamSpec)
	_, p := gatherAndRender(t, c, cr)
	c.Written(p, testOwner)
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
	_, p := gatherAndRender(t, c, cr)
	c.Written(p, testOwner)
	c.Own(secretOf2("ns", "tas-tls", map[string]string{"tls.crt": "garbage", "tls.key": "garbage"}), testOwner)
	facts, _ := gatherAndRender(t, c, cr)
	if _, err := pki.Decode(facts.Certs.Own[1].Cert, facts.Certs.Own[1].Key); err != nil {
		t.Error(err)
	}
}
