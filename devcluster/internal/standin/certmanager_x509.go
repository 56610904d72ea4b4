package standin

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"
)

// defaultLifetime is DefaultCertificateDuration.
const defaultLifetime = 90 * 24 * time.Hour

// keyUsages and extKeyUsages are the names of usages (pkg/api/util/usages.go).
var (
	keyUsages = map[string]x509.KeyUsage{
		"signing": x509.KeyUsageDigitalSignature, "digital signature": x509.KeyUsageDigitalSignature,
		"content commitment": x509.KeyUsageContentCommitment, "key encipherment": x509.KeyUsageKeyEncipherment,
		"key agreement": x509.KeyUsageKeyAgreement, "data encipherment": x509.KeyUsageDataEncipherment, "cert sign": x509.KeyUsageCertSign,
		"crl sign": x509.KeyUsageCRLSign, "encipher only": x509.KeyUsageEncipherOnly, "decipher only": x509.KeyUsageDecipherOnly,
	}
	extKeyUsages = map[string]x509.ExtKeyUsage{
		"any": x509.ExtKeyUsageAny, "server auth": x509.ExtKeyUsageServerAuth, "client auth": x509.ExtKeyUsageClientAuth,
		"code signing": x509.ExtKeyUsageCodeSigning, "email protection": x509.ExtKeyUsageEmailProtection, "s/mime": x509.ExtKeyUsageEmailProtection,
		"ipsec end system": x509.ExtKeyUsageIPSECEndSystem, "ipsec tunnel": x509.ExtKeyUsageIPSECTunnel, "ipsec user": x509.ExtKeyUsageIPSECUser,
		"timestamping": x509.ExtKeyUsageTimeStamping, "ocsp signing": x509.ExtKeyUsageOCSPSigning,
		"microsoft sgc": x509.ExtKeyUsageMicrosoftServerGatedCrypto, "netscape sgc": x509.ExtKeyUsageNetscapeServerGatedCrypto,
	}
)

// newKey makes the key that a spec asks for (pkg/util/pki/generate.go, GeneratePrivateKeyForCertificate).
func (s *certSpec) newKey() (crypto.Signer, error) {
	switch s.PrivateKey.Algorithm {
	case "", "RSA":
		return rsa.GenerateKey(rand.Reader, s.keySize())
	case "ECDSA":
		curve, known := map[int]elliptic.Curve{256: elliptic.P256(), 384: elliptic.P384(), 521: elliptic.P521()}[s.keySize()]
		if !known {
			return nil, fmt.Errorf("unsupported ecdsa key size specified: %d", s.keySize())
		}
		return ecdsa.GenerateKey(curve, rand.Reader)
	case "Ed25519":
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}
	return nil, fmt.Errorf("unsupported private key algorithm specified: %s", s.PrivateKey.Algorithm)
}

// keySize is that of the spec, or that of an algorithm without one.
func (s *certSpec) keySize() int {
	switch {
	case s.PrivateKey.Size > 0:
		return s.PrivateKey.Size
	case s.PrivateKey.Algorithm == "ECDSA":
		return 256
	}
	return 2048
}

// keyMismatches are the fields of a spec that a key is not as (pkg/util/pki/match.go, PrivateKeyMatchesSpec).
func (s *certSpec) keyMismatches(key crypto.Signer) []string {
	const algorithm, size = "spec.privateKey.algorithm", "spec.privateKey.size"
	bits := 0
	switch k := key.(type) {
	case *rsa.PrivateKey:
		if s.PrivateKey.Algorithm != "" && s.PrivateKey.Algorithm != "RSA" {
			return []string{algorithm}
		}
		bits = k.N.BitLen()
	case *ecdsa.PrivateKey:
		if s.PrivateKey.Algorithm != "ECDSA" {
			return []string{algorithm}
		}
		bits = k.Params().BitSize
	default:
		if s.PrivateKey.Algorithm != "Ed25519" {
			return []string{algorithm}
		}
		return nil
	}
	if bits != s.keySize() {
		return []string{size}
	}
	return nil
}

// encodeKey is EncodePrivateKey.
func encodeKey(key crypto.Signer, encoding string) (string, error) {
	if encoding != "PKCS8" {
		switch k := key.(type) {
		case *rsa.PrivateKey:
			return encode("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(k)), nil
		case *ecdsa.PrivateKey:
			der, err := x509.MarshalECPrivateKey(k)
			return encode("EC PRIVATE KEY", der), err
		}
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return encode("PRIVATE KEY", der), err
}

// privateKeyIn reads a key in any of the encodings.
func privateKeyIn(text string) (crypto.Signer, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("error decoding private key PEM block: no PEM data was found in given input")
	}
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	default:
		return nil, fmt.Errorf("unknown private key type: %s", block.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("error parsing private key: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("error parsing private key: invalid key type")
	}
	return signer, nil
}

// sameKey says whether two public keys are the same.
func sameKey(a, b crypto.PublicKey) bool {
	key, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && key.Equal(b)
}

// certificatesIn are the certificates of a PEM text.
func certificatesIn(text string) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("error parsing X.509 certificate: %w", err)
		}
		out = append(out, one)
	}
	if len(out) == 0 {
		return nil, errors.New("error decoding certificate PEM block: no valid certificates found")
	}
	return out, nil
}

// subject is the name in a certificate.
func (s *certSpec) subject() pkix.Name {
	n := s.Subject
	return pkix.Name{
		CommonName: s.CommonName, SerialNumber: n.SerialNumber, Organization: n.Organizations, OrganizationalUnit: n.OrganizationalUnits,
		Country: n.Countries, Locality: n.Localities, Province: n.Provinces, StreetAddress: n.StreetAddresses, PostalCode: n.PostalCodes,
	}
}

// signingRequest is the request for a certificate, as PEM (pkg/util/pki/csr.go, GenerateCSR). The usages are not in it: they are taken
// from the CertificateRequest.
func (s *certSpec) signingRequest(key crypto.Signer) (string, error) {
	template := &x509.CertificateRequest{Subject: s.subject(), DNSNames: s.DNSNames, EmailAddresses: s.EmailAddresses}
	for _, text := range s.IPAddresses {
		ip := net.ParseIP(text)
		if ip == nil {
			return "", fmt.Errorf("the IP address %q is invalid", text)
		}
		template.IPAddresses = append(template.IPAddresses, ip)
	}
	for _, text := range s.URIs {
		parsed, err := url.Parse(text)
		if err != nil {
			return "", err
		}
		template.URIs = append(template.URIs, parsed)
	}
	if s.CommonName == "" && len(s.DNSNames)+len(s.EmailAddresses)+len(s.IPAddresses)+len(s.URIs) == 0 {
		return "", errors.New("at least one of commonName, dnsNames, emailAddresses, ipAddresses, or uris must be set")
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	return encode("CERTIFICATE REQUEST", der), err
}

// requestIn reads a request for a certificate.
func requestIn(text []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("error decoding certificate request PEM block")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

// certificateFor is what is signed for a request (pkg/util/pki/certificatetemplate.go, CertificateTemplateFromCertificateRequest).
func certificateFor(csr *x509.CertificateRequest, spec *requestSpec, now time.Time) (*x509.Certificate, error) {
	lifetime := defaultLifetime
	if spec.Duration != nil {
		lifetime = spec.Duration.Duration
	}
	out := &x509.Certificate{
		PublicKey: csr.PublicKey, Subject: csr.Subject, RawSubject: csr.RawSubject, DNSNames: csr.DNSNames, IPAddresses: csr.IPAddresses,
		EmailAddresses: csr.EmailAddresses, URIs: csr.URIs, NotBefore: now, NotAfter: now.Add(lifetime),
		BasicConstraintsValid: true, IsCA: spec.IsCA,
	}
	if spec.IsCA {
		out.KeyUsage |= x509.KeyUsageCertSign
	}
	usages := spec.Usages
	if len(usages) == 0 {
		usages = []string{"digital signature", "key encipherment"}
	}
	for _, name := range usages {
		if usage, known := keyUsages[name]; known {
			out.KeyUsage |= usage
		} else if usage, known := extKeyUsages[name]; known {
			out.ExtKeyUsage = append(out.ExtKeyUsage, usage)
		} else {
			return nil, fmt.Errorf("unknown key usages: [%s]", name)
		}
	}
	return out, nil
}

// bundle is a signed certificate with those that clients need beside it, and what they trust, as PEM.
type bundle struct{ chain, authority string }

// signBy signs with the pair of a ca issuer (pkg/util/pki, SignCSRTemplate and ParseSingleCertificateChain): those that sign
// themselves are left out of the chain, and the topmost is the authority.
func signBy(a *keyPair, template *x509.Certificate) (bundle, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, a.chain[0], template.PublicKey, a.key)
	if err != nil {
		return bundle{}, fmt.Errorf("error creating x509 certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return bundle{}, err
	}
	left := slices.Clone(a.chain)
	signsItself := func(c *x509.Certificate) bool {
		return bytes.Equal(c.RawIssuer, c.RawSubject) && c.CheckSignatureFrom(c) == nil
	}
	out, top := bundle{}, leaf
	for {
		if top == leaf || !signsItself(top) {
			out.chain += encode("CERTIFICATE", top.Raw)
		}
		left = slices.DeleteFunc(left, func(c *x509.Certificate) bool { return c.Equal(top) })
		at := slices.IndexFunc(left, func(c *x509.Certificate) bool {
			return bytes.Equal(top.RawIssuer, c.RawSubject) && top.CheckSignatureFrom(c) == nil
		})
		if at < 0 {
			break
		}
		top = left[at]
	}
	if len(left) > 0 {
		return bundle{}, errors.New("certificate chain is malformed or broken")
	}
	out.authority = encode("CERTIFICATE", top.Raw)
	return out, nil
}

// signItself signs with the key of the certificate (pkg/controller/certificaterequests/selfsigned).
func signItself(key crypto.Signer, template *x509.Certificate) (bundle, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	text := encode("CERTIFICATE", der)
	return bundle{text, text}, err
}
