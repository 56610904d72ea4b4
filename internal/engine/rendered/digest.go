package rendered

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
)

// KeyedDigest is the HMAC-SHA256 of data in hexadecimal. A digest of a Secret is keyed, so that whoever sees it in a
// status or on disk can not try values against it (law 16).
func KeyedDigest(key []byte, data map[string][]byte) string {
	mac := hmac.New(sha256.New, key)
	write := func(b []byte) {
		// The lengths keep names and values apart: no other data gives the same bytes.
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(b)))
		mac.Write(length[:])
		mac.Write(b)
	}
	for _, name := range slices.Sorted(maps.Keys(data)) {
		write([]byte(name))
		write(data[name])
	}
	return hex.EncodeToString(mac.Sum(nil))
}
