package standin

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"math/big"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestTheRouterReadsCertificates: a Route whose certificates HAProxy could not load is not admitted.
func TestTheRouterReadsCertificates(t *testing.T) {
	pair := func(name string, signer *keyPair, end time.Time) (*keyPair, string, string) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: end, IsCA: signer == nil,
			BasicConstraintsValid: true,
		}
		parent, by := template, crypto.Signer(key)
		if signer != nil {
			parent, by = signer.chain[0], signer.key
		}
		raw, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
		if err != nil {
			t.Fatal(err)
		}
		certificate, err := x509.ParseCertificate(raw)
		if err != nil {
			t.Fatal(err)
		}
		text, err := encodeKey(key, "PKCS8")
		if err != nil {
			t.Fatal(err)
		}
		return &keyPair{key: key, chain: []*x509.Certificate{certificate}}, encode("CERTIFICATE", raw), text
	}
	later := time.Now().Add(time.Hour)
	authority, authorityText, _ := pair("ca", nil, later)
	_, leaf, key := pair("leaf", authority, later)
	_, expired, expiredKey := pair("expired", authority, time.Unix(1, 0))
	_, alone, otherKey := pair("alone", nil, later)
	for what, test := range map[string]struct {
		tls     map[string]any
		refused string
	}{
		"nothing":                     {map[string]any{}, ""},
		"a pair":                      {map[string]any{"certificate": leaf, "key": key}, ""},
		"a pair in one":               {map[string]any{"certificate": leaf + key}, ""},
		"a pair of the CA":            {map[string]any{"certificate": leaf, "key": key, "caCertificate": authorityText}, ""},
		"an expired pair of the CA":   {map[string]any{"certificate": expired, "key": expiredKey, "caCertificate": authorityText}, ""},
		"of another CA":               {map[string]any{"certificate": leaf, "key": key, "caCertificate": alone}, "spec.tls.certificate"},
		"no key":                      {map[string]any{"certificate": leaf}, "no key specified"},
		"another's key":               {map[string]any{"certificate": leaf, "key": otherKey}, "spec.tls.key"},
		"a certificate for a key":     {map[string]any{"certificate": leaf, "key": leaf}, "expecting only PRIVATE KEY"},
		"text":                        {map[string]any{"certificate": "text", "key": key}, "failed to parse certificate"},
		"a CA for the destination":    {map[string]any{"destinationCACertificate": authorityText}, ""},
		"a text for the destination":  {map[string]any{"destinationCACertificate": "text"}, "failed to parse destination CA certificate"},
		"base64 for the destination":  {map[string]any{"destinationCACertificate": base64.StdEncoding.EncodeToString([]byte(authorityText))}, "spec.tls.destinationCACertificate"},
		"a key for the destination":   {map[string]any{"destinationCACertificate": key}, "spec.tls.destinationCACertificate"},
		"a text for the authority":    {map[string]any{"caCertificate": "text"}, "failed to parse CA certificate"},
		"a bad block in a good chain": {map[string]any{"destinationCACertificate": authorityText + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}, "spec.tls.destinationCACertificate"},
	} {
		route := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"host": "h.example", "tls": test.tls}}}
		condition := routeStatus(route, nil, "now")["ingress"].([]any)[0].(map[string]any)["conditions"].([]any)[0].(map[string]any)
		reason, _ := condition["reason"].(string)
		message, _ := condition["message"].(string)
		if (reason == "ExtendedValidationFailed") != (test.refused != "") || !strings.Contains(message, test.refused) {
			t.Errorf("%s: %v", what, condition)
		}
	}
}
