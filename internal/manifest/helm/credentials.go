package helm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// GeneratedCredentials are the random values, certificates and times that templates ask for, the same whenever they ask for the same.
type GeneratedCredentials interface {
	// Bytes returns n bytes that nobody can guess, the same for the same name.
	Bytes(name Name, n int) []byte
	// Since is the time that templates are encoded.
	Since() time.Time
	// Certificate returns a certificate and its key in PEM, and false where it has to be made first.
	Certificate(c Certificate) (Pair, bool)
}

// Name is what a value is known by that a template makes at random.
type Name struct {
	// Now has the file that is rendered, what is asked for and how often the file has asked for that before, so that a call in one file
	// moves none of the others.
	Now string
	// Before is the name that the value had before it had that of its file: its place among all calls of the chart.
	Before string
}

// Pair is a certificate and its key in PEM, with the names that templates know them by.
type Pair struct{ Cert, Key string }

// The kinds of certificates and keys that templates ask for.
const (
	// Authority is a certificate authority. All of a chart are one.
	Authority = "Authority"
	// Leaf is the certificate of a server, signed by the Authority.
	Leaf = "Leaf"
	// SelfSigned is the certificate of a server that is trusted by itself.
	SelfSigned = "SelfSigned"
	// Key is a private key without a certificate.
	Key = "Key"
)

// Certificate is what a template asks for.
type Certificate struct {
	Kind       string
	CommonName string
	DNS, IPs   []string
	// Type is rsa, ecdsa or ed25519, of a Key.
	Type string
	// Before is the CommonName that a Key had before it had that of its file.
	Before string `json:"-"`
}

// Name tells apart what templates ask for; it fits into a key of a Secret.
func (c Certificate) Name() string {
	if c.Kind == Authority {
		return "authority"
	}
	raw, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("bug: strings do not encode: %v", err))
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}
