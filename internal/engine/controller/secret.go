package controller

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// SecretData decodes the data of a Secret; nil for a Secret that is absent.
func SecretData(u *unstructured.Unstructured) map[string][]byte {
	if u == nil {
		return nil
	}
	raw, _, _ := unstructured.NestedMap(u.Object, "data")
	out := make(map[string][]byte, len(raw))
	for key, item := range raw {
		text, _ := item.(string)
		if decoded, err := base64.StdEncoding.DecodeString(text); err == nil {
			out[key] = decoded
		}
	}
	return out
}

// Only reduces the data of a Secret to the keys that pods read, so that another key, which somebody else may keep in it, restarts none.
func Only(data map[string][]byte, keys ...string) map[string][]byte {
	out := make(map[string][]byte, len(keys))
	for _, key := range keys {
		if value, there := data[key]; there {
			out[key] = value
		}
	}
	return out
}

// SecretDigest is a keyed digest of the data of Secrets (invariant 16): the key is the UID of the custom resource.
func SecretDigest(key types.UID, secrets ...map[string][]byte) string {
	mac := hmac.New(sha256.New, []byte(key))
	for _, data := range secrets {
		fmt.Fprintf(mac, "%d;", len(data))
		for _, name := range slices.Sorted(maps.Keys(data)) {
			fmt.Fprintf(mac, "%d:%s%d:", len(name), name, len(data[name]))
			mac.Write(data[name])
		}
	}
	return hex.EncodeToString(mac.Sum(nil)[:16])
}
