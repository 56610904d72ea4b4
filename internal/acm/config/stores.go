package config

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"software.sslmate.com/src/go-pkcs12"
)

// The types of stores that are read. Java's own is not.
const storePEM, storePKCS12 = "PEM", "PKCS12"

// What the keys of both stores end with.
const locationSuffix, typeSuffix = ".location", ".type"

// stores reads the trust store and the key store.
func stores(properties map[string]string, readFile func(string) ([]byte, error)) (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if out.RootCAs, err = trust(properties, readFile); err != nil {
		return nil, err
	}
	if out.Certificates, err = identity(properties, readFile); err != nil {
		return nil, err
	}
	return out, nil
}

// read reads the file of a store, and says of what type it is; without a location it is nil.
func read(properties map[string]string, store, remedy string, readFile func(string) ([]byte, error)) (raw []byte, kind string, err error) {
	location := properties[store+locationSuffix]
	if location == "" {
		return nil, "", nil
	}
	kind = strings.ToUpper(cmp.Or(properties[store+typeSuffix], "JKS"))
	if kind != storePEM && kind != storePKCS12 {
		return nil, "", fmt.Errorf("%s.type is %s: give it as PEM or PKCS12 (%s)", store, kind, remedy)
	}
	if raw, err = readFile(location); err != nil {
		return nil, "", fmt.Errorf("%s.location: %w", store, err)
	}
	return raw, kind, nil
}

// trust reads the certificates that the broker's is checked against; nil for those of the system.
func trust(properties map[string]string, readFile func(string) ([]byte, error)) (*x509.CertPool, error) {
	raw, kind, err := read(properties, trustStore, "Strimzi has ca.crt and ca.p12 in the Secret of the cluster's CA", readFile)
	if err != nil {
		return nil, err
	}
	if raw == nil {
		if raw, kind = []byte(properties[trustTextKey]), storePEM; len(raw) == 0 {
			return nil, nil
		}
	}
	out := x509.NewCertPool()
	if kind == storePEM {
		if !out.AppendCertsFromPEM(raw) {
			return nil, errors.New("ssl.truststore holds no PEM certificate")
		}
		return out, nil
	}
	certificates, err := pkcs12.DecodeTrustStore(raw, properties[trustPassKey])
	if err != nil {
		return nil, fmt.Errorf("ssl.truststore.location is no PKCS12 trust store that ssl.truststore.password opens: %w", err)
	}
	for _, one := range certificates {
		out.AddCert(one)
	}
	return out, nil
}

// identity reads the certificate that is shown to a broker that asks for one; none where no key store is named. A PEM file has the key and
// the chain, in any order (KIP-651).
func identity(properties map[string]string, readFile func(string) ([]byte, error)) ([]tls.Certificate, error) {
	raw, kind, err := read(properties, keyStore, "Strimzi has user.p12 in the Secret of a KafkaUser", readFile)
	if err != nil {
		return nil, err
	}
	chain, key := raw, raw
	if raw == nil {
		chain, key, kind = []byte(properties[keyChainKey]), []byte(properties[keyTextKey]), storePEM
		switch {
		case len(chain) == 0 && len(key) == 0:
			return nil, nil
		case len(chain) == 0 || len(key) == 0:
			return nil, fmt.Errorf("of %s and %s one is set: set both", keyChainKey, keyTextKey)
		}
	}
	if kind == storePKCS12 {
		return fromPKCS12(raw, properties)
	}
	if bytes.Contains(key, []byte("ENCRYPTED")) {
		return nil, errors.New("the key of ssl.keystore is encrypted, which is read from a PKCS12 file alone: set ssl.keystore.type to PKCS12, or decrypt it")
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("ssl.keystore holds no PEM certificate with its key: %w", err)
	}
	return []tls.Certificate{pair}, nil
}

// fromPKCS12 reads a key store of one password: with two, Kafka's clients fail at such files, too.
func fromPKCS12(raw []byte, properties map[string]string) ([]tls.Certificate, error) {
	password := properties[keyPassKey]
	if other := properties[keySecretKey]; other != "" && other != password {
		return nil, fmt.Errorf("%s is not %s, and a PKCS12 file has one password: remove it", keySecretKey, keyPassKey)
	}
	key, leaf, authorities, err := pkcs12.DecodeChain(raw, password)
	if err != nil {
		return nil, fmt.Errorf("ssl.keystore.location is no PKCS12 key store that ssl.keystore.password opens: %w", err)
	}
	pair := tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}
	for _, one := range authorities {
		pair.Certificate = append(pair.Certificate, one.Raw)
	}
	return []tls.Certificate{pair}, nil
}
