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
	case map[string]any:
		for key, inner := range v {
			if err := scanValue(inner, loads || slices.Contains(loading, strings.ToLower(key))); err != nil {
				return err
			}
		}
	case map[any]any:
		for key, inner := range v {
			name, _ := key.(string)
			if err := scanValue(inner, loads || slices.Contains(loading, strings.ToLower(name))); err != nil {
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
