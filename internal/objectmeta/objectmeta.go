// Package objectmeta checks the metadata of objects that users bring.
package objectmeta

import (
	"fmt"
	"maps"
	"slices"

	"mlkeeper.dev/internal/manifest/bounded"
)

// maxName bounds the name of a label or an annotation in an error, in bytes; the API server takes no longer one than 253 and 63 with a slash.
const maxName = 317

// Check refuses labels and annotations that are no texts. Nobody may read them by unstructured.GetLabels and GetAnnotations, which are nil
// where a single value is a number: whoever writes them back would drop all others. kubectl and Helm refuse them for that reason
// (k8s.io/cli-runtime, pkg/resource/metadata_decoder.go). Null is an empty text, as there. The error quotes no value.
func Check(object map[string]any) error {
	metadata, _ := object["metadata"].(map[string]any)
	for _, field := range []string{"labels", "annotations"} {
		if metadata[field] == nil {
			continue
		}
		values, ok := metadata[field].(map[string]any)
		if !ok {
			return fmt.Errorf("metadata.%s is %s: make it a map of texts", field, kindOf(metadata[field]))
		}
		for _, name := range slices.Sorted(maps.Keys(values)) {
			switch value := values[name].(type) {
			case nil, string:
			case map[string]any, []any:
				return fmt.Errorf("metadata.%s.%s is %s: make it a text", field, bounded.Text(name, maxName), kindOf(value))
			default:
				return fmt.Errorf("metadata.%s.%s is %s: write it in quotes", field, bounded.Text(name, maxName), kindOf(value))
			}
		}
	}
	return nil
}

// kindOf is the type of a value of JSON that is neither null nor, as a label, a text.
func kindOf(value any) string {
	switch value.(type) {
	case map[string]any:
		return "a map"
	case []any:
		return "a list"
	case bool:
		return "a boolean"
	case string:
		return "a text"
	}
	return "a number"
}
