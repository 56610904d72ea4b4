package idle

import (
	"strconv"
	"strings"
)

// valueAt reads a value; numbers in the path are places in lists. It returns nil where there is none.
func valueAt(from any, path []string) any {
	for _, step := range path {
		switch v := from.(type) {
		case map[string]any:
			from = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(v) {
				return nil
			}
			from = v[i]
		default:
			return nil
		}
	}
	return from
}

// pointer writes a path as JSON patches want it.
func pointer(path []string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var out strings.Builder
	for _, step := range path {
		out.WriteString("/" + escape.Replace(step))
	}
	return out.String()
}
