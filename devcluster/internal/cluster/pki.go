package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"time"

	"mlkeeper.dev/devcluster/internal/component"
)

// lifetime is longer than any devcluster should live.
const lifetime = 10 * 365 * 24 * time.Hour

// authority is the certificate authority of one cluster. Its keys are elliptic,
// because RSA keys would take a noticeable part of the boot to generate.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// keyPair is a certificate with its key, both as PEM.
type keyPair struct{ cert, key []byte }

// loadOrCreateAuthority takes up the authority of a kept cluster, whose service
// account tokens in etcd stay valid that way, or makes a new one.
func loadOrCreateAuthority(s component.Spec) (*authority, error) {
	certPEM, err := os.ReadFile(s.PKI("ca.crt"))
	if errors.Is(err, fs.ErrNotExist) {
		return createAuthority(s)
	}
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(s.PKI("ca.key"))
	if err != nil {
		return nil, err
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return nil, fmt.Errorf("%s is damaged; remove the cluster with `devcluster down` and boot it again", s.PKI("ca.crt"))
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key, pem: certPEM}, nil
}

// createAuthority makes the authority and the service account key, together,
// so that either both are there or neither.
func createAuthority(s component.Spec) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certTemplate(pkix.Name{CommonName: "devcluster"})
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	ca := &authority{cert: cert, key: key, pem: pemBlock("CERTIFICATE", der)}
	saKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	saPub, err := x509.MarshalPKIXPublicKey(saKey.Public())
	if err != nil {
		return nil, err
	}
	return ca, errors.Join(
		writeKey(s.PKI("sa.key"), saKey),
		os.WriteFile(s.PKI("sa.pub"), pemBlock("PUBLIC KEY", saPub), 0o600),
		writeKey(s.PKI("ca.key"), key),
		os.WriteFile(s.PKI("ca.crt"), ca.pem, 0o600),
	)
}

func certTemplate(subject pkix.Name) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		// The kernel's random source does not fail on Linux.
		panic(err)
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		// An hour of slack, for a clock that a fault test has set back.
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  time.Now().Add(lifetime),
		KeyUsage:  x509.KeyUsageDigitalSignature,
	}
}

// issue signs a certificate for the template with a fresh key.
func (a *authority) issue(template *x509.Certificate) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return keyPair{}, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return keyPair{}, err
	}
	return keyPair{cert: pemBlock("CERTIFICATE", der), key: pemBlock("EC PRIVATE KEY", keyDER)}, nil
}

// client issues a client certificate for a user and its groups.
func (a *authority) client(user string, groups ...string) (keyPair, error) {
	template := certTemplate(pkix.Name{CommonName: user, Organization: groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

// serving issues the certificate that every TLS port of the cluster shows.
func (a *authority) serving(s component.Spec) (keyPair, error) {
	template := certTemplate(pkix.Name{CommonName: "devcluster-serving"})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.DNSNames = []string{
		"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local",
	}
	serviceIP, _, err := net.ParseCIDR(component.ServiceCIDR)
	if err != nil {
		return keyPair{}, err
	}
	first := serviceIP.To4()
	first[3]++
	template.IPAddresses = []net.IP{net.ParseIP(component.Loopback), first}
	if s.RealNode {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(component.Gateway))
	}
	return a.issue(template)
}

// writePKI writes the serving pair and an admin token, for clients without TLS
// certificates such as curl.
func writePKI(s component.Spec, ca *authority) error {
	pair, err := ca.serving(s)
	if err != nil {
		return err
	}
	proxy, err := ca.client("front-proxy-client")
	if err != nil {
		return err
	}
	kubelet, err := ca.client("kube-apiserver-kubelet-client", "system:masters")
	if err != nil {
		return err
	}
	raw := make([]byte, 24)
	if _, err := rand.Read(raw); err != nil {
		return err
	}
	token := hex.EncodeToString(raw)
	return errors.Join(
		os.WriteFile(s.PKI("serving.crt"), pair.cert, 0o600),
		os.WriteFile(s.PKI("serving.key"), pair.key, 0o600),
		os.WriteFile(s.PKI("front-proxy.crt"), proxy.cert, 0o600),
		os.WriteFile(s.PKI("front-proxy.key"), proxy.key, 0o600),
		os.WriteFile(s.PKI("kubelet-client.crt"), kubelet.cert, 0o600),
		os.WriteFile(s.PKI("kubelet-client.key"), kubelet.key, 0o600),
		os.WriteFile(s.PKI("admin.token"), []byte(token), 0o600),
		os.WriteFile(s.PKI("tokens.csv"), []byte(token+`,admin,admin,"system:masters"`+"\n"), 0o600),
	)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(path, pemBlock("EC PRIVATE KEY", der), 0o600)
}

func pemBlock(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
