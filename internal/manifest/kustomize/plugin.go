package kustomize

import (
	"fmt"
	"slices"
	"strings"
)

// loading are the fields by which a plugin of kustomize names what it loads. The decoder takes them in any case.
var loading = []string{"path", "paths", "file", "files", "env", "envs", "resources", "configurations", "crds", "bases"}

// scanPlugin refuses a plugin's configuration that would load an address.
func scanPlugin(content []byte) error {
	docs, err := documents(content)
	if err != nil {
		return err
	}
	for _, doc := range docs {
		var value any
		if err := doc.Decode(&value); err != nil {
			return fmt.Errorf("is no YAML (%w): correct it", err)
		}
		if err := scanValue(value, false); err != nil {
			return err
		}
	}
	return nil
}

func scanValue(value any, loads bool) error {
	switch v := value.(type) {
	case map[string]any, map[any]any:
		for _, f := range sortedFields(v) {
			if err := scanValue(f.value, loads || slices.Contains(loading, strings.ToLower(f.name))); err != nil {
				return err
			}
		}
	case []any:
		for _, inner := range v {
			if err := scanValue(inner, loads); err != nil {
				return err
			}
		}
	case string:
		_, file, _ := strings.Cut(v, "=")
		if loads && (IsRemote(v) || IsRemote(file)) {
			return fmt.Errorf("names %q, which %w", v, errRemote)
		}
	}
	return nil
}

// namedValue is a field of a map as YAML decodes it. The name is empty where the key is no text.
type namedValue struct {
	name, order string
	value       any
}

// sortedFields are the fields of a map in one order, so that the same one of several errors is told each time.
func sortedFields(value any) (out []namedValue) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			out = append(out, namedValue{key, key, inner})
		}
	case map[any]any:
		for key, inner := range v {
			name, _ := key.(string)
			out = append(out, namedValue{name, fmt.Sprintf("%T %v", key, key), inner})
		}
	}
	slices.SortFunc(out, func(a, b namedValue) int { return strings.Compare(a.order, b.order) })
	return out
}
