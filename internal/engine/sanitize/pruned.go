package sanitize

import (
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// undeclared is what becomes of a field that no schema declares.
const undeclared = "dropped, since the API does not declare this field"

// Pruned returns a warning, as Clean does, for each field of an object that its answer does not have. Of an object without any declared field,
// server-side apply takes every field, and the schema that is published tells no difference to one that declares all; the API server
// prunes them without a word. What it does not prune is left out: metadata, and a status, which is written apart.
func Pruned(sent, answer *unstructured.Unstructured) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(sent.Object)) {
		if name != "apiVersion" && name != "kind" && name != "metadata" && name != "status" {
			out = append(out, pruned(name, sent.Object[name], answer.Object[name])...)
		}
	}
	return out
}

func pruned(path string, sent, answer any) (out []string) {
	switch content := sent.(type) {
	case map[string]any:
		have, is := answer.(map[string]any)
		if !is {
			return gone(path, answer)
		}
		for _, name := range slices.Sorted(maps.Keys(content)) {
			out = append(out, pruned(path+"."+name, content[name], have[name])...)
		}
		return out
	case []any:
		have, is := answer.([]any)
		if !is {
			return gone(path, answer)
		}
		if len(have) != len(content) {
			return nil // Others have items of it too.
		}
		for i := range content {
			out = append(out, pruned(path+"["+strconv.Itoa(i)+"]", content[i], have[i])...)
		}
		return out
	case nil:
		return nil
	}
	return gone(path, answer)
}

// gone is the warning of a field without an answer.
func gone(path string, answer any) []string {
	if answer != nil {
		return nil
	}
	return []string{path + ": " + undeclared}
}
