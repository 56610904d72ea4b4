// Package bounded measures and shortens what users bring, for the bounds of the packages that read them. It owns no bound.
package bounded

import "strings"

// Values counts a value of JSON with all that it holds.
func Values(of any) int {
	count := 1
	switch of := of.(type) {
	case map[string]any:
		for _, inner := range of {
			count += Values(inner)
		}
	case []any:
		for _, inner := range of {
			count += Values(inner)
		}
	}
	return count
}

// Text is the beginning of a text that is longer than a number of bytes, with a mark that follows them. It is valid UTF-8 if the text is.
func Text(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
