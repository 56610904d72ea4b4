package trustyai

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"time"
)

const (
	// authorityLife and leafLife are how long certificates of the operator's own CA are valid; they are renewed with a
	// third of it left.
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 365 * 24 * time.Hour
	// backdate allows for clocks that are behind.
	backdate = 5 * time.Minute
)

// pair is a certificate with its key, decoded and in PEM.
type pair struct {
	cert            *x509.Certificate
	key             *ecdsa.PrivateKey
	certPEM, keyPEM []byte
}

// errPair says that a Secret does not hold a usable pair; it never carries the content.
var errPair = errors.New("no usable certificate and key")

// decodePair decodes a certificate and the ECDSA key that belongs to it.
func decodePair(certPEM, keyPEM []byte) (*pair, error) {
	loaded, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, errPair
	}
	cert, err := x509.ParseCertificate(loaded.Certificate[0])
	if err != nil {
		return nil, errPair
	}
	key, ok := loaded.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errPair
	}
	return &pair{cert: cert, key: key, certPEM: certPEM, keyPEM: keyPEM}, nil
}

// renewAt is when a third of the lifetime is left.
func (p *pair) renewAt() time.Time {
	life := p.cert.NotAfter.Sub(p.cert.NotBefore)
	return p.cert.NotAfter.Add(-life / 3)
}

// fresh says that the pair is valid and not due for renewal.
func (p *pair) fresh(now time.Time) bool {
	return !now.Before(p.cert.NotBefore) && now.Before(p.renewAt())
}

// serves says that the pair is a leaf of the authority for exactly these names.
func (p *pair) serves(authority *pair, dns []string) bool {
	have, want := slices.Clone(p.cert.DNSNames), slices.Clone(dns)
	slices.Sort(have)
	slices.Sort(want)
	return slices.Equal(have, want) && p.cert.CheckSignatureFrom(authority.cert) == nil
}

// newAuthority makes a certificate authority.
func newAuthority(random io.Reader, now time.Time, name string) (*pair, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityLife),
		IsCA:                  true,
		MaxPathLenZero:        true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	return newPair(random, template, nil)
}

// newLeaf makes a server certificate signed by an authority.
func newLeaf(random io.Reader, now time.Time, authority *pair, dns []string) (*pair, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: commonName(dns[len(dns)-1])},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(leafLife),
		DNSNames:              dns,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	return newPair(random, template, authority)
}

// newPair makes a key and has it signed by the authority, or by itself.
func newPair(random io.Reader, template *x509.Certificate, authority *pair) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), random)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	serial, err := rand.Int(random, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	template.SerialNumber = serial
	parent, signer := template, key
	if authority != nil {
		parent, signer = authority.cert, authority.key
	}
	der, err := x509.CreateCertificate(random, template, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	rawKey, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read back a certificate: %w", err)
	}
	return &pair{
		cert: cert, key: key,
		certPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		keyPEM:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: rawKey}),
	}, nil
}

// onlyAuthorities says that a text holds certificates of authorities in PEM and nothing else.
func onlyAuthorities(bundle []byte) bool {
	for len(bundle) > 0 {
		block, rest := pem.Decode(bundle)
		if block == nil {
			return false
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !cert.IsCA {
			return false
		}
		bundle = rest
	}
	return true
}

// commonName joins words to a common name, which may have 64 characters.
func commonName(words ...string) string {
	const limit = 64
	name := ""
	for _, word := range words {
		if name != "" {
			name += "/"
		}
		name += word
	}
	if len(name) > limit {
		name = name[:limit]
	}
	return name
}
