package trustyai

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// labelValue makes a name a legal label value: the name of a custom resource may be longer than a label value.
func labelValue(name string) string {
	const limit, kept = 63, 50
	if len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return strings.TrimRight(name[:kept], "-._") + "-" + hex.EncodeToString(sum[:5])
}
