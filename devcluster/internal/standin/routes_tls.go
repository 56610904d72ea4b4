package standin

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/cert"
)

// validateCertificates is what the router asks of the certificates of a Route before it serves it (openshift/router at 4b401a86,
// pkg/router/routeapihelpers/validation.go, ExtendedValidateRoute). Which of them a termination may have is said by the schema.
func validateCertificates(route *unstructured.Unstructured) field.ErrorList {
	config, _, _ := unstructured.NestedStringMap(route.Object, "spec", "tls")
	at := field.NewPath("spec", "tls")
	var errs field.ErrorList
	refuse := func(name, what string, err error) {
		if err != nil {
			errs = append(errs, field.Invalid(at.Child(name), "redacted "+what+" data", err.Error()))
		}
	}

	var authorities *x509.VerifyOptions
	if text := config["caCertificate"]; text != "" {
		chain, err := parseCertificates(text, "CA certificate")
		refuse("caCertificate", "ca certificate", err)
		pool := x509.NewCertPool()
		for _, one := range chain {
			pool.AddCert(one)
		}
		authorities = &x509.VerifyOptions{Roots: pool, Intermediates: pool}
	}
	if text := config["certificate"]; text != "" {
		chain, err := parseCertificates(text, "certificate")
		if err == nil && authorities != nil {
			err = verify(chain[0], *authorities)
		}
		refuse("certificate", "certificate", err)
		refuse("key", "key", keyOf(text, config["key"]))
	}
	if text := config["destinationCACertificate"]; text != "" {
		_, err := parseCertificates(text, "destination CA certificate")
		refuse("destinationCACertificate", "destination ca certificate", err)
	}
	return errs
}

// parseCertificates reads certificates whose signatures the router takes.
func parseCertificates(text, what string) ([]*x509.Certificate, error) {
	chain, err := cert.ParseCertsPEM([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("failed to parse %s: %w", what, err)
	}
	for _, one := range chain {
		selfSigned := bytes.Equal(one.RawIssuer, one.RawSubject) && (one.AuthorityKeyId == nil || bytes.Equal(one.AuthorityKeyId, one.SubjectKeyId))
		switch one.SignatureAlgorithm {
		case x509.SHA1WithRSA, x509.ECDSAWithSHA1, x509.DSAWithSHA1, x509.MD2WithRSA, x509.MD5WithRSA:
			if !selfSigned {
				return nil, fmt.Errorf("router does not support CA-signed certs using %s", one.SignatureAlgorithm)
			}
		}
	}
	return chain, nil
}

// verify says whether the authorities signed the certificate. When it is valid is for the client to judge.
func verify(certificate *x509.Certificate, authorities x509.VerifyOptions) error {
	_, err := certificate.Verify(authorities)
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return nil
	}
	return err
}

// keyOf says why a key is not that of a certificate. The key may stand beside the certificate, too.
func keyOf(certificate, key string) error {
	if key == "" && !strings.Contains(certificate, "PRIVATE KEY") {
		return errors.New("no key specified")
	}
	for rest := []byte(key); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if !strings.Contains(block.Type, "PRIVATE KEY") {
			return fmt.Errorf("field contains invalid types %s, expecting only PRIVATE KEY", block.Type)
		}
	}
	_, err := tls.X509KeyPair([]byte(certificate), []byte(certificate+"\n"+key))
	return err
}
