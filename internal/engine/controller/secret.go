package controller

import (
	"encoding/base64"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
