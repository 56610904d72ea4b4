package digest

import (
	"encoding/hex"
	"hash"
	"io"
	"strings"
)

// sealed is what every sealed hash begins with. No other hash does: they are hexadecimal digits.
const sealed = "keyed:"

// Sealer keys hashes of content before they are stored where more people may read than may read the content, such as in inventories. It is
// for one goroutine at a time.
type Sealer struct {
	mac    hash.Hash
	prefix string
}

// Sealer returns the sealer of one subject, such as the UID of a custom resource.
func (k Key) Sealer(subject string) Sealer {
	id := k.For("the name of the key").New().Sum(nil)
	return Sealer{mac: k.For("inventory").For(subject).New(), prefix: sealed + hex.EncodeToString(id[:4]) + ":"}
}

// Seal returns a hash as it is stored. What is sealed already, and no hash, stay as they are.
func (s Sealer) Seal(plain string) string {
	if plain == "" || strings.HasPrefix(plain, sealed) {
		return plain
	}
	s.mac.Reset()
	_, _ = io.WriteString(s.mac, plain)
	return s.prefix + Text(s.mac)
}

// Is says that a hash was stored. Earlier releases stored hashes as they are, which are recognized, so that an upgrade writes no object.
func (s Sealer) Is(stored, plain string) bool {
	return plain != "" && !strings.HasPrefix(plain, sealed) && (stored == plain || stored == s.Seal(plain))
}

// Foreign says that a hash was sealed with another key, so that nothing can be compared with it.
func (s Sealer) Foreign(stored string) bool {
	return strings.HasPrefix(stored, sealed) && !strings.HasPrefix(stored, s.prefix)
}
