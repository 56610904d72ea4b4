package pki

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
	"net"
	"slices"
	"time"
)

const (
	// AuthorityLife is how long an authority is valid; it is renewed with a third of it left.
	AuthorityLife = 10 * 365 * 24 * time.Hour
	// LeafLife is that of the certificate of a server.
	LeafLife = 365 * 24 * time.Hour
	// backdate allows for clocks that are behind.
	backdate = 5 * time.Minute
)

// certificateType is the type of a certificate in PEM (RFC 7468).
const certificateType = "CERTIFICATE"

// Pair is a certificate with its key, decoded and in PEM.
type Pair struct {
	Cert            *x509.Certificate
	CertPEM, KeyPEM []byte
	key             *ecdsa.PrivateKey
}

// ErrPair says that a Secret does not hold a usable pair; it never carries the content.
var ErrPair = errors.New("no usable certificate and key")

// Decode decodes a certificate and the ECDSA key that belongs to it.
func Decode(certPEM, keyPEM []byte) (*Pair, error) {
	loaded, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, ErrPair
	}
	cert, err := x509.ParseCertificate(loaded.Certificate[0])
	if err != nil {
		return nil, ErrPair
	}
	key, ok := loaded.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, ErrPair
	}
	return &Pair{Cert: cert, key: key, CertPEM: certPEM, KeyPEM: keyPEM}, nil
}

// RenewAt is when a third of the lifetime is left.
func (p *Pair) RenewAt() time.Time {
	life := p.Cert.NotAfter.Sub(p.Cert.NotBefore)
	return p.Cert.NotAfter.Add(-life / 3)
}

// MadeAt is when a pair of this package was made; of another it is no time to rely on.
func (p *Pair) MadeAt() time.Time { return p.Cert.NotBefore.Add(backdate) }

// Fresh says that the pair is valid and not due for renewal.
func (p *Pair) Fresh(now time.Time) bool {
	return !now.Before(p.Cert.NotBefore) && now.Before(p.RenewAt())
}

// Signs says that the pair is an authority. Nothing that another certificate has signed is ever verified, so that it would be signed anew
// each time.
func (p *Pair) Signs() bool { return p.Cert.IsCA && p.Cert.KeyUsage&x509.KeyUsageCertSign != 0 }

// Serves says that the pair is a leaf of the authority for exactly these names.
func (p *Pair) Serves(authority *Pair, dns []string) bool {
	return p.For(dns) && p.Cert.CheckSignatureFrom(authority.Cert) == nil
}

// For says that the pair is for exactly these names.
func (p *Pair) For(dns []string) bool {
	have, want := slices.Clone(p.Cert.DNSNames), slices.Clone(dns)
	slices.Sort(have)
	slices.Sort(want)
	return slices.Equal(have, want)
}

// Signer is the valid authority that signed the pair, in PEM, of a bundle of nothing but authorities; nil where there is none.
func (p *Pair) Signer(bundle []byte, now time.Time) []byte {
	for _, cert := range authorities(bundle) {
		if now.Before(cert.NotAfter) && p.Cert.CheckSignatureFrom(cert) == nil {
			return pem.EncodeToMemory(&pem.Block{Type: certificateType, Bytes: cert.Raw})
		}
	}
	return nil
}

// NewAuthority makes a certificate authority.
func NewAuthority(random io.Reader, now time.Time, name string) (*Pair, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(AuthorityLife),
		IsCA:                  true,
		MaxPathLenZero:        true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	return newPair(random, template, nil)
}

// NewLeaf makes a server certificate signed by an authority. It is named after the last of its names.
func NewLeaf(random io.Reader, now time.Time, authority *Pair, dns []string) (*Pair, error) {
	return NewServer(random, now, authority, dns[len(dns)-1], dns, nil)
}

// NewServer makes a server certificate signed by an authority, or by itself where there is none.
func NewServer(random io.Reader, now time.Time, authority *Pair, name string, dns []string, ips []net.IP) (*Pair, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: CommonName(name)},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(LeafLife),
		DNSNames:              dns,
		IPAddresses:           ips,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	return newPair(random, template, authority)
}

// newPair makes a key and has it signed by the authority, or by itself.
func newPair(random io.Reader, template *x509.Certificate, authority *Pair) (*Pair, error) {
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
		parent, signer = authority.Cert, authority.key
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
	return &Pair{
		Cert: cert, key: key,
		CertPEM: pem.EncodeToMemory(&pem.Block{Type: certificateType, Bytes: der}),
		KeyPEM:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: rawKey}),
	}, nil
}

// maxAuthorities bounds a bundle, which is verified with in every pass.
const maxAuthorities = 16

// OnlyAuthorities says that a text holds certificates of authorities in PEM, sixteen at most, and nothing else.
func OnlyAuthorities(bundle []byte) bool { return authorities(bundle) != nil }

// authorities are the certificates of a bundle; nil for one that holds anything but authorities, or too many.
func authorities(bundle []byte) []*x509.Certificate {
	var out []*x509.Certificate
	for len(bundle) > 0 {
		block, rest := pem.Decode(bundle)
		if block == nil || len(out) == maxAuthorities {
			return nil
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !cert.IsCA {
			return nil
		}
		out, bundle = append(out, cert), rest
	}
	return out
}

// CommonName joins words to a common name, which may have 64 characters.
func CommonName(words ...string) string {
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
