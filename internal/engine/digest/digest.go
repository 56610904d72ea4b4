// Package digest makes the digests of secret content that stand where more people may read than may read the content: in annotations
// and in statuses. It is pure; the key comes from package digestkey.
package digest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"maps"
	"slices"
)

// Key is the key of all digests of an installation. Who does not have it cannot try passwords against a digest.
type Key [32]byte

// Redacted stands for a digest where the key is not known, as on the command line.
const Redacted = "***"

// For returns the key of one subject, such as the UID of a custom resource. Equal content of two subjects has two digests, so that nobody
// can compare the digest of another with that of content of his own.
func (k Key) For(subject string) Key {
	mac := k.New()
	_, _ = io.WriteString(mac, subject)
	return Key(mac.Sum(nil))
}

// New returns a keyed hash.
func (k Key) New() hash.Hash { return hmac.New(sha256.New, k[:]) }

// Secrets returns a digest of the data of Secrets.
func (k Key) Secrets(secrets ...map[string][]byte) string {
	mac := k.New()
	for _, data := range secrets {
		fmt.Fprintf(mac, "%d;", len(data))
		for _, name := range slices.Sorted(maps.Keys(data)) {
			fmt.Fprintf(mac, "%d:%s%d:", len(name), name, len(data[name]))
			mac.Write(data[name])
		}
	}
	return Text(mac)
}

// Text encodes the sum of a hash as all digests are encoded.
func Text(sum hash.Hash) string { return hex.EncodeToString(sum.Sum(nil)[:16]) }
